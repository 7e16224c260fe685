import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Run, ServiceAddress } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Field, Form } from "../../design/form.tsx";
import { lasting } from "../../design/format.ts";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Ago, Empty, Failure, Loading, Status } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { useServiceState } from "../../live/environment.tsx";
import { usePages } from "../../live/pages.ts";
import { queries } from "../../live/queries.ts";
import { useMayEdit, useServiceAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

const RUN =
  "/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service/runs/$runId";

/** The runs of a service, the newest first. They are read again when one starts or ends. */
export function Runs() {
  const at = useServiceAddress();
  const mayEdit = useMayEdit();
  const [isCreating, setIsCreating] = useState(false);
  const state = useServiceState(at.service);
  const underWay = state?.runs.map(({ id, status }) => `${id} ${status}`).join();
  const runs = usePages({
    queryKey: ["runs", at.environmentId, at.service, underWay],
    read: (cursor) => berth.runs.list(at, { limit: 50 }).page(cursor),
    staleTime: 0,
    keeps: ([, , service]) => service === at.service,
  });
  if (runs.isPending) return <Loading />;
  if (!runs.data) return <Failure error={runs.error} retry={() => void runs.refetch()} />;
  const all = runs.data;
  const { state: title, began, took } = texts.service;
  return (
    <>
      {mayEdit && (
        <p className="actions">
          <button type="button" className="main" onClick={() => setIsCreating(true)}>
            {texts.runs.create}
          </button>
        </p>
      )}
      {all.length === 0 && (
        <Empty title={texts.runs.empty}>
          <p>{texts.runs.emptyHint}</p>
          <p className="hint">
            {texts.home.cli} <code>berth jobs run</code>
          </p>
        </Empty>
      )}
      {all.length > 0 && (
        <Table
          caption={texts.service.tabs.runs}
          columns={[texts.runs.command, title, texts.runs.result, began, took]}
        >
          <Rows
            items={all}
            keyOf={({ id }) => id}
            rowHeight={52}
            columns={5}
            row={(run) => <Cells at={at} run={run} />}
          />
        </Table>
      )}
      <More pages={runs} text={texts.runs.older} />
      {isCreating && <NewRun at={at} isCron={state?.type === "cron"} onClose={() => setIsCreating(false)} />}
    </>
  );
}

function Cells({ at, run }: { at: ServiceAddress; run: Run }) {
  const { id, command, status, exitCode, trigger, createdAt, startedAt, finishedAt } = run;
  return (
    <>
      <th scope="row">
        <Link to={RUN} params={{ ...at, runId: id }}>
          <code>{command ?? texts.runs.startCommand}</code>
        </Link>
        {trigger === "schedule" && <span className="hint"> {texts.runs.scheduled}</span>}
      </th>
      <td>
        <Status status={status} />
      </td>
      <td>{exitCode !== undefined && texts.runs.exitCode(exitCode)}</td>
      <td>
        <Ago time={startedAt ?? createdAt} />
      </td>
      <td className="number">
        {startedAt && finishedAt ? lasting(Date.parse(finishedAt) - Date.parse(startedAt)) : null}
      </td>
    </>
  );
}

function NewRun({ at, isCron, onClose }: { at: ServiceAddress; isCron: boolean; onClose: () => void }) {
  const navigate = useNavigate();
  const create = useMutation({
    mutationFn: (command: string) => berth.runs.create(at, command === "" ? {} : { command }),
    onSuccess: ({ id }) => {
      void queries.invalidateQueries({ queryKey: ["runs", at.environmentId, at.service] });
      return navigate({ to: RUN, params: { ...at, runId: id } });
    },
  });
  return (
    <Dialog title={texts.runs.create} onClose={onClose}>
      <Form
        onSubmit={(fields) => create.mutate(String(fields.get("command")).trim())}
        error={create.error}
        isBusy={create.isPending}
        submit={texts.runs.submit}
      >
        <p className="hint">{texts.runs.createHint}</p>
        <Field label={texts.runs.command} hint={isCron ? texts.runs.cronHint : texts.runs.commandHint}>
          {(id, hint) => (
            <input
              id={id}
              name="command"
              aria-describedby={hint}
              required={!isCron}
              maxLength={4096}
              autoComplete="off"
              spellCheck={false}
            />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}
