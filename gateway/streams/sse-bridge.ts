import type { FastifyReply, FastifyRequest } from "fastify";
import { Gauge } from "prom-client";
import type { Logger } from "../../services/kit/log.ts";
import type { Auth } from "../auth/authorize.ts";
import type { CallerCache } from "../auth/caller-cache.ts";
import {
  errorEnvelope,
  fromConnectError,
  type Problem,
  problem,
  unavailable,
  unreachable,
} from "../http/problem.ts";
import { errorResponse, type GatewayResponse, isProblem } from "../http/response.ts";
import type { Exchange } from "../routing/exchange.ts";
import { type Outbound, streamHeadersOf } from "../upstream/forward.ts";
import { DEADLINE_MS } from "../upstream/unary.ts";
import type { Upstream } from "../upstreams.ts";
import type { Call, StreamPool } from "./connect-stream.ts";
import { frameOf } from "./sse-format.ts";
import type { StreamSlots } from "./stream-limit.ts";

const streamGauge = new Gauge({
  name: "berth_open_streams",
  help: "Streams that clients follow now, by route",
  labelNames: ["route"],
});

export type FollowDeps = {
  pools: Record<Upstream, StreamPool>;
  auth: Auth;
  callers: CallerCache;
  slots: StreamSlots;
  heartbeatMs: number;
  log: Logger;
};

export type Streams = ReturnType<typeof createStreams>;

/** How often in a row identity may be away when a stream's caller is checked. */
const MISSED_CHECKS = 3;

type Open = {
  userId: string | undefined;
  check: () => Promise<void>;
  close: (last: string) => void;
};

/**
 * Server-sent events of server-streaming RPCs. The service's first message opens the stream; a refusal
 * before it is an ordinary answer. A stream whose client is gone cancels its call at once, one whose client
 * is slow holds it back, and one whose caller may not read any more is closed with a `problem` event: looked
 * at with each heartbeat, and as soon as something is forgotten of its user.
 */
export function createStreams(deps: FollowDeps) {
  const { pools, auth, callers, slots, heartbeatMs, log } = deps;
  const open = new Set<Open>();
  let stopping = false;
  callers.onInvalidate((userId) => {
    for (const stream of open) if (userId === undefined || stream.userId === userId) void stream.check();
  });

  /** Why the caller may not go on reading, 503 when identity can not be asked. */
  async function standing(
    { route, credentials }: Exchange,
    accountId: string | undefined,
  ): Promise<Problem | undefined> {
    if (!credentials) return undefined;
    const now = await auth.identify(`Bearer ${credentials.token}`);
    if (isProblem(now)) return now;
    const known = await auth.authorize(route, now, accountId, Date.now());
    return isProblem(known) ? known : undefined;
  }

  /** Writes the stream until it ends. `free` is called when it has. */
  function stream(
    request: FastifyRequest,
    reply: FastifyReply,
    exchange: Exchange,
    call: Call,
    free: () => void,
  ) {
    const { raw } = reply;
    const accountId = (request.params as Record<string, string>).accountId;
    let blocked = false;
    let missed = 0;
    const write = (text: string) => {
      if (text === "" || raw.writableEnded || raw.write(text) || blocked) return;
      blocked = true;
      call.pause();
      raw.once("drain", () => {
        blocked = false;
        call.resume();
      });
    };
    const entry: Open = {
      userId: exchange.credentials?.caller.userId,
      async check() {
        const found = await standing(exchange, accountId);
        missed = found?.status === 503 ? missed + 1 : 0;
        if (found && (found.status !== 503 || missed >= MISSED_CHECKS)) entry.close(told(found, request.id));
      },
      close(last) {
        call.cancel();
        if (!raw.writableEnded) raw.end(last);
      },
    };
    const beat = setInterval(() => {
      if (!blocked) write(":\n\n");
      entry.check().catch((error: unknown) => log.warn({ err: error }, "a stream's caller was not checked"));
    }, heartbeatMs);
    open.add(entry);
    streamGauge.inc({ route: exchange.route.template });
    raw.once("close", () => {
      clearInterval(beat);
      open.delete(entry);
      streamGauge.dec({ route: exchange.route.template });
      call.cancel();
      free();
      log.debug({ requestId: request.id, route: exchange.route.template }, "stream closed");
    });
    return { write, close: entry.close };
  }

  return {
    /** Answers a request by a stream, or gives the refusal to answer it with. */
    async open(
      request: FastifyRequest,
      reply: FastifyReply,
      exchange: Exchange,
      message: Buffer | string,
      out: Outbound,
    ): Promise<GatewayResponse | undefined> {
      const { route, credentials } = exchange;
      if (stopping) return errorResponse(unavailable(), request.id);
      const slot = await slots.take(credentials?.caller.tokenId ?? request.ip);
      if (!slot) return errorResponse(tooMany(slots.limit), request.id);
      return new Promise((resolve) => {
        let writer: ReturnType<typeof stream> | undefined;
        const refuse = (found: Problem | undefined) => {
          clearTimeout(late);
          reply.raw.off("close", gone);
          slot.free();
          resolve(found && errorResponse(found, request.id));
        };
        const gone = () => {
          call.cancel();
          exchange.observer.end(exchange.observed, { status: 499 }, request.id);
          refuse(undefined);
        };
        const late = setTimeout(() => {
          call.cancel();
          refuse(unavailable());
        }, DEADLINE_MS);
        const begin = () => {
          clearTimeout(late);
          reply.raw.off("close", gone);
          head(request, reply, exchange);
          writer = stream(request, reply, exchange, call, slot.free);
          if (request.method === "HEAD" || stopping) writer.close("");
          resolve(undefined);
          return writer;
        };
        const call = pools[route.upstream].open(route.rpcPath, streamHeadersOf(out), message, {
          message: (json) => (writer ?? begin()).write(frameOf(route.follow!, json)),
          end(error) {
            const found = error && fromConnectError(error, request.id);
            if (writer) writer.close(found ? told(found, request.id) : "");
            else if (found) refuse(found);
            else begin().close("");
          },
          broken(error) {
            const found = unreachable(route.upstream, error);
            if (!writer) return refuse(found);
            log.warn({ cause: found.cause, requestId: request.id }, "a stream broke off");
            writer.close(told(found, request.id));
          },
        });
        reply.raw.once("close", gone);
        if (reply.raw.destroyed) gone();
      });
    },
    /** Closes all streams with a hint to come back, and takes no new ones. */
    stop(): void {
      stopping = true;
      for (const stream of open) stream.close(comeBack());
    },
  };
}

function head(request: FastifyRequest, reply: FastifyReply, exchange: Exchange): void {
  const { rate } = exchange;
  reply.hijack();
  reply.raw.writeHead(200, {
    "x-request-id": request.id,
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-accel-buffering": "no",
    ...(rate && {
      "ratelimit-limit": rate.limit,
      "ratelimit-remaining": rate.remaining,
      "ratelimit-reset": rate.resetSeconds,
    }),
  });
  reply.raw.flushHeaders();
  exchange.observer.end(exchange.observed, { status: 200 }, request.id);
}

/** The last words of a stream: when to come back, where that helps, else why it ends, as the error envelope. */
function told(found: Problem, requestId: string): string {
  return found.status === 503 ? comeBack() : `event: problem\ndata: ${errorEnvelope(found, requestId)}\n\n`;
}

/** Spread, so that not all come back in the same moment. */
function comeBack(): string {
  return `retry: ${500 + Math.floor(Math.random() * 1_500)}\n\n`;
}

function tooMany(limit: number): Problem {
  const message = `At most ${limit} streams can be open at a time. Close one first.`;
  return problem(429, "rate_limited", message, { retryAfter: 5 });
}
