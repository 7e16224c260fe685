import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { Confirm } from "../../design/confirm.tsx";
import { lasting } from "../../design/format.ts";
import { Ago, Failure, Loading, Status } from "../../design/state.tsx";
import { useServiceState } from "../../live/environment.tsx";
import { queries } from "../../live/queries.ts";
import { useMayEdit, useServiceAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { Output } from "./output.tsx";

const SERVICE = "/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service";

/** One run: how it is, and what it writes. The environment says when it starts, and the stream of its output when it ends. */
export function RunScreen() {
  const at = useServiceAddress();
  const { runId } = useParams({ strict: false }) as { runId: string };
  const mayEdit = useMayEdit();
  const key = ["run", runId];
  const shown = useServiceState(at.service)?.runs.find(({ id }) => id === runId)?.status;
  const run = useQuery({
    queryKey: [...key, shown],
    queryFn: () => berth.runs.get(at, runId),
    staleTime: 0,
    placeholderData: (before) => (before?.id === runId ? before : undefined),
  });
  const cancel = useMutation({
    mutationFn: () => berth.runs.cancel(at, runId),
    onSettled: () => queries.invalidateQueries({ queryKey: key }),
  });
  if (run.isPending) return <Loading />;
  if (!run.data) return <Failure error={run.error} retry={() => void run.refetch()} />;
  const { command, status, exitCode, message, version, trigger, createdAt, startedAt, finishedAt } = run.data;
  const readAgain = () => void queries.invalidateQueries({ queryKey: key });
  return (
    <>
      <p>
        <Link to={`${SERVICE}/runs`} params={at}>
          {texts.runs.all}
        </Link>
      </p>
      <h2>
        <code>{command ?? texts.runs.startCommand}</code>
      </h2>
      <p>
        <Status status={status} />{" "}
        <span className="hint">
          {exitCode !== undefined && `${texts.runs.exitCode(exitCode)} · `}
          {trigger === "schedule" && `${texts.runs.scheduled} · `}v{version} ·{" "}
          <Ago time={startedAt ?? createdAt} />
          {startedAt && finishedAt && ` · ${lasting(Date.parse(finishedAt) - Date.parse(startedAt))}`}
        </span>
      </p>
      {message && <p className="note">{message}</p>}
      {mayEdit && (status === "queued" || status === "running") && (
        <p className="actions">
          <Confirm
            text={texts.cancel}
            about={command ?? texts.runs.startCommand}
            sentence={texts.runs.cancelHint}
            action={cancel}
          />
        </p>
      )}
      <Output
        key={runId}
        id={`run ${runId}`}
        open={(options) => berth.runs.followLogs(at, runId, options)}
        onEnd={readAgain}
        title={texts.runs.output}
        name={`${at.service}-run-${runId}`}
        empty={texts.runs.noOutput}
      />
    </>
  );
}
