import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  BuildLogEventSchema,
  FollowBuildLogsRequest,
} from "../../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { parseEventId } from "../../../kit/rpc/event-id.ts";
import { type LogOf, listLogPieces } from "../../builds/log-sql.ts";
import { requireBuild } from "../../builds/require-build.ts";
import { observeOutcome } from "./observe-outcome.ts";
import type { StreamDeps } from "./stream-deps.ts";

type Event = MessageInitShape<typeof BuildLogEventSchema>;
/** The last piece read: its position in the table, and its number in its build. */
type Position = { at: number; seq: number };

/** Yields the pieces of a build's log as they are written, `restart` when the build begins again, then its outcome. */
export async function* streamBuildLog(
  { pool, changes }: StreamDeps,
  request: FollowBuildLogsRequest,
  signal: AbortSignal,
): AsyncGenerator<Event> {
  const { id } = await requireBuild(pool, request);
  const [at, seq] = parseEventId(request.lastEventId, /^(\d{1,15})-(\d{1,9})$/);
  const read: Position = { at: at ?? 0, seq: seq ?? -1 };
  yield {};
  for await (const { buildOutcome } of observeOutcome(pool, changes, id, id, signal)) {
    yield* unreadEvents(pool, id, read);
    if (buildOutcome) {
      yield { event: { case: "end", value: { outcome: buildOutcome } } };
      return;
    }
  }
}

async function* unreadEvents(pool: Pool, deploymentId: string, read: Position): AsyncGenerator<Event> {
  for await (const { position, seq, text } of unreadPieces(pool, deploymentId, read, "build")) {
    if (seq <= read.seq) {
      yield { event: { case: "restart", value: {} } };
      read.seq = -1;
    }
    const value = { logs: text, truncated: seq > read.seq + 1 };
    read.seq = seq;
    yield { id: `${position}-${seq}`, event: { case: "piece", value } };
  }
}

/** Yields the pieces of a log that were written after a position, which moves on with each. */
export async function* unreadPieces(pool: Pool, id: string, read: { at: number }, of: LogOf) {
  for (;;) {
    const pieces = await listLogPieces(pool, id, read.at, of);
    if (pieces.length === 0) return;
    for (const piece of pieces) {
      read.at = piece.position;
      yield piece;
    }
  }
}
