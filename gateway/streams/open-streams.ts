import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "../../services/kit/log.ts";
import type { Auth } from "../auth/authorize.ts";
import type { CallerCache } from "../auth/caller-cache.ts";
import type { Exchange } from "../auth/exchange.ts";
import { type Problem, problem, unavailable } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";
import type { Outbound } from "../upstream/forward.ts";
import type { Upstream } from "../upstreams.ts";
import type { StreamClient } from "./connect-stream.ts";
import { EventStream } from "./event-stream.ts";
import type { StreamSlots } from "./stream-limit.ts";

export type StreamDeps = {
  clients: Record<Upstream, StreamClient>;
  auth: Auth;
  callers: CallerCache;
  slots: StreamSlots;
  /** How many users' limits the members of an account have together; 0 for any number. */
  accountTimes: number;
  heartbeatMs: number;
  log: Logger;
};

export type Streams = ReturnType<typeof createStreams>;

/**
 * Answers requests with server-sent events of a server-streaming RPC (docs/conventions.md#streams). The service's
 * first message opens the stream; a refusal before it is an ordinary response. The call ends with its client, and
 * pauses while the client reads slowly. The caller is revalidated with each heartbeat and when it is invalidated:
 * when it has lost access, the last event is `problem`.
 */
export function createStreams(deps: StreamDeps) {
  const { clients, auth, callers, slots, accountTimes, heartbeatMs, log } = deps;
  const streams = new Set<EventStream>();
  let shuttingDown = false;
  callers.onInvalidate((userId) => {
    for (const stream of streams)
      if (userId === undefined || stream.userId === userId) stream.dispatch({ type: "callerInvalidated" });
  });

  return {
    /** Opens a stream as the response. Resolves to undefined then, or to the refusal to respond with. */
    async open(
      request: FastifyRequest,
      reply: FastifyReply,
      exchange: Exchange,
      message: Buffer | string,
      out: Outbound,
    ): Promise<GatewayResponse | undefined> {
      const { route, credentials } = exchange;
      if (shuttingDown) return errorResponse(unavailable(), request.id);
      const { accountId } = request.params as Record<string, string>;
      const slot = await slots.acquire(credentials?.caller.userId ?? request.ip);
      if (!slot) return errorResponse(tooManyStreams(slots.limit), request.id);
      const ofAccount = accountId === undefined ? undefined : await slots.acquire(accountId, accountTimes);
      const release = () => {
        slot.release();
        ofAccount?.release();
      };
      if (accountId !== undefined && !ofAccount) {
        release();
        return errorResponse(tooManyStreams(slots.limit * accountTimes, " in this account"), request.id);
      }
      const stream = new EventStream({
        request,
        reply,
        exchange,
        closesAtOnce: request.method === "HEAD" || shuttingDown,
        revalidate: async () => credentials && auth.revalidate(route, credentials, accountId),
        heartbeatMs,
        released: () => {
          release();
          streams.delete(stream);
        },
        log,
      });
      streams.add(stream);
      return stream.start(clients[route.upstream], message, out);
    },
    /** Closes all streams with a hint when to reconnect, and refuses new ones. */
    stop(): void {
      shuttingDown = true;
      for (const stream of streams) stream.dispatch({ type: "shutdown" });
    },
  };
}

function tooManyStreams(limit: number, where = ""): Problem {
  const message = `At most ${limit} streams can be open at a time${where}. Close one first.`;
  return problem(429, "rate_limited", message, { retryAfter: 5 });
}
