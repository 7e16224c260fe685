import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type {
  FollowLogsRequest,
  LogEventSchema,
} from "../../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { pause } from "../../../kit/postgres/change-feed.ts";
import type { Cursors } from "../../../kit/postgres/paging.ts";
import { foreignEventId } from "../../../kit/rpc/event-id.ts";
import { isRefusal, unavailable } from "../../../kit/rpc/refusals.ts";
import { requireService } from "../../projects/require.ts";
import type { LogStream, Runtime } from "../../runtime/port.ts";
import { RuntimeRefusal } from "../../terms/runtime-refusal.ts";
import { logOf } from "../log-of.ts";
import type { StreamDeps } from "./stream-deps.ts";

const UNAPPLIED_POLL_MS = 500;
/** More lines than a log holds. */
const ALL_LINES = Number.MAX_SAFE_INTEGER;

/** The list that cursors into a service's runtime log are bound to, both of pages and of streams. */
export const runtimeLogList = (serviceId: string) => `logs ${serviceId}`;

/** Yields the lines of a service's log, the newest `limit` first or all after `lastEventId`, then each new one. */
export async function* streamRuntimeLog(
  { pool, cursors, ...readers }: StreamDeps,
  request: FollowLogsRequest,
  signal: AbortSignal,
): AsyncGenerator<MessageInitShape<typeof LogEventSchema>> {
  const { environmentId, version, since, limit = 200, lastEventId } = request;
  const service = await requireService(pool, request);
  const { id: serviceId } = service;
  const log = logOf(readers, service);
  const stream = request.stream as LogStream | undefined;
  const query = { serviceId, environmentId, version, stream, since: since && timestampDate(since) };
  const after = cursorIn(cursors, serviceId, lastEventId);
  if (after) await log.logs({ serviceId, environmentId, limit: 1, cursor: after }).catch(refuseForeign);
  let from: { after: string } | { tail: number } = after ? { after } : { tail: limit };
  yield {};
  for (;;) {
    for await (const line of readLines(log, { ...query, ...from }, signal)) {
      const { cursor, ...rest } = line;
      from = { after: cursor };
      const value = { ...rest, timestamp: timestampFromMs(Date.parse(line.timestamp)) };
      yield { id: cursors.encode(runtimeLogList(serviceId), cursor), event: { case: "line", value } };
    }
    if (signal.aborted) throw unavailable();
    // The runtime does not know the service yet, so all lines that it writes will be new.
    if ("tail" in from) from = { tail: ALL_LINES };
    await pause(UNAPPLIED_POLL_MS, signal);
    await requireService(pool, request);
  }
}

async function* readLines(log: Pick<Runtime, "followLogs">, ...query: Parameters<Runtime["followLogs"]>) {
  try {
    yield* log.followLogs(...query);
  } catch (error) {
    refuseCursor(error);
  }
}

function cursorIn(cursors: Cursors, serviceId: string, eventId: string | undefined): string | undefined {
  try {
    return cursors.decode(runtimeLogList(serviceId), eventId);
  } catch {
    throw foreignEventId();
  }
}

/** That older lines cannot be read right now does not matter to those who follow. */
function refuseForeign(error: unknown): void {
  if (!isRefusal(error)) refuseCursor(error);
}

function refuseCursor(error: unknown): never {
  if (error instanceof RuntimeRefusal && error.code === "invalid_cursor") throw foreignEventId();
  throw error;
}
