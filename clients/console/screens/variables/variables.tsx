import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type {
  DanglingVariable,
  ResolvedSet,
  ResolvedVariable,
  ServiceAddress,
} from "../../../typescript/src/index.ts";
import { Alert } from "../../design/form.tsx";
import { Rows } from "../../design/rows.tsx";
import { Empty, Failure, LiveMark, Loading } from "../../design/state.tsx";
import { useFollow } from "../../live/follow.ts";
import { useAccount, useMayEdit, useServiceAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { DeleteVariable } from "./delete-variable.tsx";
import { EditVariable } from "./edit-variable.tsx";
import { VariableHistory } from "./history.tsx";
import { PasteVariables } from "./paste-variables.tsx";
import { scopeAt } from "./scopes.ts";

type Open =
  | { edit: ResolvedVariable | DanglingVariable | undefined }
  | { delete: ResolvedVariable }
  | { history: ResolvedVariable }
  | "paste";

/** The merged set as the service receives it, live, each entry with where it is from. */
export function Variables() {
  const at = useServiceAddress();
  const mayEdit = useMayEdit();
  const [set, setSet] = useState<ResolvedSet>();
  const [open, setOpen] = useState<Open>();
  const liveness = useFollow<ResolvedSet>(
    `variables ${at.environmentId} ${at.service}`,
    (options) => berth.variables.followResolved(at, options),
    setSet,
  );
  if (liveness.error !== undefined && !set) return <Failure error={liveness.error} />;
  if (!set) return <Loading />;
  const { data, dangling } = set;
  const close = () => setOpen(undefined);
  return (
    <>
      <div className="head">
        <h2>
          {texts.service.tabs.variables} <LiveMark liveness={liveness} />
        </h2>
        {mayEdit && (
          <p className="actions">
            <button type="button" className="main" onClick={() => setOpen({ edit: undefined })}>
              {texts.variables.add}
            </button>
            <button type="button" onClick={() => setOpen("paste")}>
              {texts.variables.paste}
            </button>
          </p>
        )}
      </div>
      <Dangling dangling={dangling} onEdit={(edit) => setOpen({ edit })} />
      {data.length === 0 ? (
        <Empty title={texts.variables.empty}>
          <p className="hint">
            {texts.home.cli} <code>berth vars set NAME=value</code>
          </p>
        </Empty>
      ) : (
        <Table at={at} data={data} onOpen={setOpen} />
      )}
      {open === "paste" && <PasteVariables at={at} set={data} onClose={close} />}
      {typeof open === "object" && "edit" in open && (
        <EditVariable at={at} variable={open.edit} onClose={close} />
      )}
      {typeof open === "object" && "delete" in open && (
        <DeleteVariable at={at} variable={open.delete} onClose={close} />
      )}
      {typeof open === "object" && "history" in open && (
        <VariableHistory at={at} variable={open.history} onClose={close} />
      )}
    </>
  );
}

function Table({
  at,
  data,
  onOpen,
}: {
  at: ServiceAddress;
  data: ResolvedVariable[];
  onOpen: (open: Open) => void;
}) {
  const { name, value, source, actions, caption } = texts.variables;
  return (
    <div className="table">
      <table>
        <caption className="unseen">{caption}</caption>
        <thead>
          <tr>
            {[name, value, source, actions].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <Rows
          items={data}
          keyOf={(variable) => variable.name}
          rowHeight={48}
          columns={4}
          row={(variable) => <Cells at={at} variable={variable} onOpen={onOpen} />}
        />
      </table>
    </div>
  );
}

function Cells({
  at,
  variable,
  onOpen,
}: {
  at: ServiceAddress;
  variable: ResolvedVariable;
  onOpen: (open: Open) => void;
}) {
  const mayEdit = useMayEdit();
  // The audit log is for owners.
  const isOwner = useAccount()?.myRole === "owner";
  const { name, source, shadows, fromConfig, connection, aliasTarget } = variable;
  return (
    <>
      <th scope="row">
        <code>{name}</code>
      </th>
      <td>
        <Value at={at} variable={variable} />
        {connection && (
          <span className="hint"> {texts.variables.connection(connection.service, connection.key)}</span>
        )}
        {aliasTarget && <span className="hint"> {texts.variables.alias(aliasTarget)}</span>}
      </td>
      <td>
        {fromConfig ? texts.variables.fromConfig : texts.scopes[source]}
        {shadows.length > 0 && (
          <span className="hint">
            {" "}
            {texts.variables.shadows(shadows.map(({ scope }) => texts.scopes[scope]).join(", "))}
          </span>
        )}
      </td>
      <td>
        {mayEdit && !fromConfig && (
          <>
            <button type="button" className="quiet" onClick={() => onOpen({ edit: variable })}>
              {texts.variables.edit}
              <span className="unseen"> {name}</span>
            </button>{" "}
            <button type="button" className="quiet" onClick={() => onOpen({ delete: variable })}>
              {texts.variables.delete}
              <span className="unseen"> {name}</span>
            </button>{" "}
          </>
        )}
        {isOwner && !fromConfig && (
          <button type="button" className="quiet" onClick={() => onOpen({ history: variable })}>
            {texts.variables.history}
            <span className="unseen"> {name}</span>
          </button>
        )}
      </td>
    </>
  );
}

/** As many characters are shown without a box that scrolls. */
const SHORT = 200;

function Text({ value }: { value: string }) {
  if (value.length <= SHORT) return <code className="value">{value}</code>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard.
    <code className="value long" tabIndex={0}>
      {value}
    </code>
  );
}

/** A value; a sensitive one when it is asked for, until it is hidden or the screen is left. */
function Value({ at, variable }: { at: ServiceAddress; variable: ResolvedVariable }) {
  const { name, source, sensitive, value } = variable;
  const [revealed, setRevealed] = useState<{ of: ResolvedVariable; value: string }>();
  // Of one that was set anew the value that was revealed is another.
  const shown = revealed?.of === variable ? revealed.value : undefined;
  const reveal = useMutation({
    // Nothing is kept of it: a mutation's result would stay for minutes.
    gcTime: 0,
    mutationFn: async () =>
      setRevealed({ of: variable, value: (await berth.variables.reveal(scopeAt(at, source), name)).value }),
  });
  if (!sensitive) return <Text value={value ?? ""} />;
  return (
    <>
      {shown === undefined ? <span className="hint">{texts.variables.hidden}</span> : <Text value={shown} />}{" "}
      <button
        type="button"
        className="quiet"
        title={texts.variables.revealHint}
        aria-disabled={reveal.isPending}
        onClick={() => {
          if (shown !== undefined) setRevealed(undefined);
          else if (!reveal.isPending) reveal.mutate();
        }}
      >
        {shown === undefined ? texts.variables.reveal : texts.variables.hide}
        <span className="unseen"> {name}</span>
      </button>
      <Alert error={reveal.error} />
    </>
  );
}

function Dangling({
  dangling,
  onEdit,
}: {
  dangling: DanglingVariable[];
  onEdit: (variable: DanglingVariable) => void;
}) {
  const mayEdit = useMayEdit();
  if (dangling.length === 0) return null;
  return (
    <section className="note">
      <p>{texts.variables.dangling}</p>
      <ul>
        {dangling.map((variable) => (
          <li key={variable.name}>
            <code>{variable.name}</code>: {texts.variables.reasons[variable.reason]}{" "}
            {mayEdit && (
              <button type="button" className="quiet" onClick={() => onEdit(variable)}>
                {texts.variables.edit}
                <span className="unseen"> {variable.name}</span>
              </button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
