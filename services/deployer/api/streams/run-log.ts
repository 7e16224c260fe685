import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  FollowRunLogsRequest,
  RunLogEventSchema,
} from "../../../../proto/gen/berth/deployer/v1/runs_pb.ts";
import { parseEventId } from "../../../kit/rpc/event-id.ts";
import { notFound, unavailable } from "../../../kit/rpc/refusals.ts";
import { findRun, type RunRow } from "../../jobs/sql.ts";
import { requireService } from "../../projects/require.ts";
import { unreadPieces } from "./build-log.ts";
import type { StreamDeps } from "./stream-deps.ts";

/** Yields the output of a run as it is written, then how it ended. */
export async function* streamRunLog(
  { pool, changes }: Pick<StreamDeps, "pool" | "changes">,
  request: FollowRunLogsRequest,
  signal: AbortSignal,
): AsyncGenerator<MessageInitShape<typeof RunLogEventSchema>> {
  const { id: serviceId } = await requireService(pool, request);
  const [at = 0] = parseEventId(request.lastEventId, /^(\d{1,15})$/);
  const read = { at };
  if (!(await findRun(pool, serviceId, request.runId))) throw notFound("run");
  yield {};
  const changed = changes.signal(request.runId);
  try {
    while (!signal.aborted) {
      // Read before the output that it ends, so that none follows the end.
      const run = await findRun(pool, serviceId, request.runId);
      if (!run) throw notFound("run");
      for await (const { position, text } of unreadPieces(pool, run.id, read, "run"))
        yield { id: String(position), event: { case: "piece", value: { logs: text, truncated: false } } };
      if (hasEnded(run)) {
        const { status, exitCode, message } = run;
        yield { event: { case: "end", value: { status, exitCode, message } } };
        return;
      }
      await changed.next(signal);
    }
  } finally {
    changed.close();
  }
  throw unavailable();
}

export function hasEnded({ status }: Pick<RunRow, "status">): boolean {
  return status !== "queued" && status !== "running";
}
