import { useState } from "react";
import type { ResolvedVariable, ServiceAddress } from "../../../typescript/src/index.ts";
import { actorOf, wordsOf } from "../../design/audit-words.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Field } from "../../design/form.tsx";
import { More } from "../../design/more.tsx";
import { Ago, Empty, Failure, Loading } from "../../design/state.tsx";
import { useServiceState } from "../../live/environment.tsx";
import { useNames } from "../../live/names.ts";
import { usePages } from "../../live/pages.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { SCOPES, type ScopeName } from "./scopes.ts";

type HistoryProps = { at: ServiceAddress; variable: ResolvedVariable; onClose: () => void };

/** Who set, changed, revealed and removed a variable at one of its scopes, the newest first. The audit log has no values. */
export function VariableHistory({ at, variable: { name, source }, onClose }: HistoryProps) {
  const [scope, setScope] = useState<ScopeName>(source);
  const service = useServiceState(at.service);
  const names = useNames(at);
  const id = { service: service?.id, environment: at.environmentId, project: at.projectId }[scope];
  const target = `${id}/${name}`;
  const pages = usePages({
    queryKey: ["audit", at.accountId, { target }],
    read: (cursor) => berth.auditEvents.list(at, { target, limit: 20 }).page(cursor),
    refetchOnWindowFocus: false,
    staleTime: 0,
  });
  const events = pages.data ?? [];
  const { historyOf, historyEmpty, scope: label } = texts.variables;
  return (
    <Dialog title={historyOf(name)} onClose={onClose} wide>
      <Field label={label}>
        {(field) => (
          <select id={field} value={scope} onChange={({ target: { value } }) => setScope(value as ScopeName)}>
            {SCOPES.map((one) => (
              <option key={one} value={one}>
                {texts.scopes[one]}
              </option>
            ))}
          </select>
        )}
      </Field>
      {pages.isPending && <Loading />}
      {!pages.data && pages.error && <Failure error={pages.error} retry={() => void pages.refetch()} />}
      {pages.data && events.length === 0 && <Empty title={historyEmpty} />}
      <ol className="history">
        {events.map((event) => (
          <li key={event.id}>
            <bdi>{actorOf(event.actor, names)}</bdi> {wordsOf(event, names)}{" "}
            <span className="hint">
              <Ago time={event.at} />
            </span>
          </li>
        ))}
      </ol>
      <More pages={pages} text={texts.audit.older} />
    </Dialog>
  );
}
