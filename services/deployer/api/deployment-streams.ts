import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type {
  BuildLogEventSchema,
  DeploymentEventSchema,
  DeploymentService,
  LogEventSchema,
} from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { notFound, refuse, unavailable } from "../../kit/rpc/errors.ts";
import { listLogPieces } from "../builds/log-sql.ts";
import { findDeployment } from "../deployments/sql.ts";
import { type Runtime, RuntimeRefusal } from "../runtime/port.ts";
import type { Changes } from "./change-feed.ts";
import { requireService } from "./require.ts";
import * as sql from "./streams-sql.ts";

export type FollowDeps = {
  pool: Pool;
  cursors: Cursors;
  changes: Pick<Changes, "bell">;
  runtime: Pick<Runtime, "logs" | "followLogs">;
};

type Following = Pick<
  ServiceImpl<typeof DeploymentService>,
  "followBuildLogs" | "followLogs" | "followDeployment"
>;

type Events<S extends DescMessage> = AsyncGenerator<MessageInitShape<S>>;

/** What cursors into a service's runtime log are bound to: its pages' and its streams'. */
export const logList = (serviceId: string) => `logs ${serviceId}`;

const UNAPPLIED_MS = 500;
/** More lines than a log holds. */
const ALL = Number.MAX_SAFE_INTEGER;

/**
 * Streams of build logs, runtime logs and a deployment's states. Each begins with an empty message once the
 * request is found to be good; each resumes after `lastEventId`. The state in the database is the truth, and
 * followers look at it when the triggers of the schema say that it changed, in whichever process.
 */
export function following({ pool, cursors, changes, runtime }: FollowDeps): Following {
  return {
    async *followBuildLogs(request, ctx): Events<typeof BuildLogEventSchema> {
      const { id, buildId } = await requireDeployment(request);
      if (!buildId) throw notFound("build: the version was deployed from an image");
      const [position, last] = numbers(request.lastEventId, /^(\d{1,15})-(\d{1,9})$/);
      let [at, seq] = [position ?? 0, last ?? -1];
      yield {};
      for await (const { buildOutcome } of looks(id, id, ctx.signal)) {
        for (let more = true; more; ) {
          const pieces = await listLogPieces(pool, id, at);
          for (const piece of pieces) {
            if (piece.seq <= seq) {
              yield { event: { case: "restart", value: {} } };
              seq = -1;
            }
            const value = { logs: piece.text, truncated: piece.seq > seq + 1 };
            [at, seq] = [piece.position, piece.seq];
            yield { id: `${at}-${seq}`, event: { case: "piece", value } };
          }
          more = pieces.length > 0;
        }
        if (buildOutcome) {
          yield { event: { case: "end", value: { outcome: buildOutcome } } };
          return;
        }
      }
    },

    async *followLogs(request, ctx): Events<typeof LogEventSchema> {
      const { version, since, limit = 200, lastEventId } = request;
      const { id: serviceId } = await requireService(pool, request);
      const stream = request.stream as "stdout" | "stderr" | undefined;
      const query = { serviceId, version, stream, since: since && timestampDate(since) };
      const after = positionIn(serviceId, lastEventId);
      if (after) await runtime.logs({ serviceId, limit: 1, cursor: after }).catch(refuseCursor);
      let from: { after: string } | { tail: number } = after ? { after } : { tail: limit };
      yield {};
      for (;;) {
        for await (const line of lines({ ...query, ...from }, ctx.signal)) {
          const { cursor, ...rest } = line;
          from = { after: cursor };
          const value = { ...rest, timestamp: timestampFromMs(Date.parse(line.timestamp)) };
          yield { id: cursors.encode(logList(serviceId), cursor), event: { case: "line", value } };
        }
        if (ctx.signal.aborted) throw unavailable();
        // The runtime does not know the service yet: whatever it will write is new.
        if ("tail" in from) from = { tail: ALL };
        await pause(UNAPPLIED_MS, ctx.signal);
        await requireService(pool, request);
      }
    },

    async *followDeployment(request, ctx): Events<typeof DeploymentEventSchema> {
      const { id, serviceId } = await requireDeployment(request);
      let [at] = numbers(request.lastEventId, /^(\d{1,9})$/);
      yield {};
      for await (const { outcome } of looks(serviceId, id, ctx.signal)) {
        for (const { seq, moved, deployment } of await sql.listStates(pool, id, at ?? 0)) {
          at = seq;
          yield { id: String(seq), event: { case: moved ? "state" : "progress", value: deployment } };
        }
        if (at === undefined) {
          // Of older deployments the way is not kept.
          at = 0;
          yield { id: "0", event: { case: "state", value: await requireDeployment(request) } };
        }
        if (outcome) {
          yield { event: { case: "end", value: { outcome } } };
          return;
        }
      }
    },
  };

  /** How a deployment stands, now and each time something rings under `key`, until the signal. */
  async function* looks(key: string, deploymentId: string, signal: AbortSignal) {
    const bell = changes.bell(key);
    try {
      while (!signal.aborted) {
        // Read before what it ends: nothing comes after an end that is seen here.
        const outcome = await sql.findOutcome(pool, deploymentId);
        if (!outcome) throw notFound("version");
        yield outcome;
        await bell.next(signal);
      }
    } finally {
      bell.close();
    }
    throw unavailable();
  }

  async function* lines(...asked: Parameters<Runtime["followLogs"]>) {
    try {
      yield* runtime.followLogs(...asked);
    } catch (error) {
      refuseCursor(error);
    }
  }

  function positionIn(serviceId: string, id: string | undefined): string | undefined {
    try {
      return cursors.decode(logList(serviceId), id);
    } catch {
      throw foreign();
    }
  }

  async function requireDeployment(request: Parameters<typeof requireService>[1] & { version: number }) {
    const { id } = await requireService(pool, request);
    const deployment = await findDeployment(pool, id, request.version);
    if (!deployment) throw notFound("version");
    return deployment;
  }
}

/** The numbers in an id that the stream gave out; none for a stream from the beginning. */
function numbers(id: string | undefined, form: RegExp): (number | undefined)[] {
  if (!id) return [];
  const match = form.exec(id);
  if (!match) throw foreign();
  return match.slice(1).map(Number);
}

function foreign() {
  return refuse(400, "malformed_request", "Last-Event-ID is not one that this stream gave out.");
}

function refuseCursor(error: unknown): never {
  if (error instanceof RuntimeRefusal && error.code === "invalid_cursor") throw foreign();
  throw error;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
    function done() {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
  });
}
