import type { FastifyReply, FastifyRequest } from "fastify";
import { Gauge } from "prom-client";
import type { Logger } from "../../services/kit/log.ts";
import { flush, writeTogether } from "../../services/kit/rpc/json/write-together.ts";
import type { Exchange } from "../auth/exchange.ts";
import { CORS_HEADERS, corsLines } from "../http/cors.ts";
import { fromConnectError, type Problem, unreachable } from "../http/problem.ts";
import { errorResponse, type GatewayResponse, rateLimitHeaders } from "../http/response.ts";
import { CLIENT_LEFT } from "../metrics/request-metrics.ts";
import { type Outbound, streamHeadersOf } from "../upstream/forward.ts";
import { DEADLINE_MS } from "../upstream/unary.ts";
import type { Call, StreamClient } from "./connect-stream.ts";
import { finalEvent, formatEvent } from "./sse-format.ts";
import { type StreamAction, type StreamInput, type StreamState, transition } from "./stream-state.ts";

const openStreams = new Gauge({
  name: "berth_open_streams",
  help: "Open streams by route",
  labelNames: ["route"],
});

type Options = {
  request: FastifyRequest;
  reply: FastifyReply;
  exchange: Exchange;
  /** Whether the stream ends as soon as its response head is sent. */
  closesAtOnce: boolean;
  /** Resolves to why the caller may no longer read, or to undefined. */
  revalidate: () => Promise<Problem | undefined>;
  heartbeatMs: number;
  /** Called once, when the stream has ended or was refused. */
  released: () => void;
  log: Logger;
};

/** One stream from a service to a client: performs what `transition` decides. */
export class EventStream {
  readonly #options: Options;
  #state: StreamState;
  #call: Call | undefined;
  #decide: (refusal: GatewayResponse | undefined) => void = () => {};
  #deadline: NodeJS.Timeout | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #released = false;

  constructor(options: Options) {
    this.#options = options;
    this.#state = { phase: "opening", closesAtOnce: options.closesAtOnce };
  }

  get userId(): string | undefined {
    return this.#options.exchange.credentials?.caller.userId;
  }

  /** Calls the service. Resolves to the refusal to respond with, or to undefined once the stream is open. */
  start(client: StreamClient, message: Buffer | string, out: Outbound): Promise<GatewayResponse | undefined> {
    const { request, reply, exchange } = this.#options;
    const { upstream, rpcPath, follow } = exchange.route;
    return new Promise((resolve) => {
      this.#decide = resolve;
      this.#deadline = setTimeout(() => this.dispatch({ type: "timedOut" }), DEADLINE_MS);
      this.#call = client.open(rpcPath, streamHeadersOf(out), message, {
        message: (json) => this.dispatch({ type: "message", text: formatEvent(follow!, json) }),
        ended: (error) =>
          this.dispatch({ type: "ended", problem: error && fromConnectError(error, request.id) }),
        broken: (error) => this.dispatch({ type: "ended", problem: unreachable(upstream, error) }),
      });
      reply.raw.once("close", () => this.#closed());
      if (reply.raw.destroyed) this.#closed();
    });
  }

  dispatch(input: StreamInput): void {
    const { state, actions } = transition(this.#state, input);
    this.#state = state;
    for (const action of actions) this.#perform(action);
  }

  #perform(action: StreamAction): void {
    if (action.type === "open") this.#open();
    else if (action.type === "write") this.#write(action.text);
    else if (action.type === "close") this.#close(action.problem);
    else if (action.type === "refuse") this.#end(errorResponse(action.problem, this.#options.request.id));
    else if (action.type === "abandon") this.#abandon();
    else if (action.type === "pauseCall") this.#pause();
    else if (action.type === "resumeCall") this.#call?.resume();
    else this.#revalidate();
  }

  #open(): void {
    const { request, reply, exchange, heartbeatMs } = this.#options;
    clearTimeout(this.#deadline);
    writeHead(request, reply, exchange);
    this.#record({ status: 200 });
    openStreams.inc({ route: exchange.route.template });
    reply.raw.once("close", () => openStreams.dec({ route: exchange.route.template }));
    this.#heartbeat = setInterval(() => this.dispatch({ type: "heartbeat" }), heartbeatMs);
    this.#decide(undefined);
  }

  #write(text: string): void {
    const { raw } = this.#options.reply;
    if (text !== "" && !raw.writableEnded && !writeTogether(raw, text)) this.dispatch({ type: "bufferFull" });
  }

  #pause(): void {
    this.#call?.pause();
    this.#options.reply.raw.once("drain", () => this.dispatch({ type: "bufferDrained" }));
  }

  #close(problem: Problem | undefined): void {
    const { request, reply, log } = this.#options;
    this.#call?.cancel();
    if (problem?.cause) log.warn({ cause: problem.cause, requestId: request.id }, "a stream broke off");
    flush(reply.raw);
    if (!reply.raw.destroyed && !reply.raw.writableEnded) reply.raw.end(finalEvent(problem, request.id));
  }

  /** Ends the call before the stream was opened. */
  #end(refusal: GatewayResponse | undefined): void {
    this.#call?.cancel();
    this.#release();
    this.#decide(refusal);
  }

  #abandon(): void {
    this.#record(CLIENT_LEFT);
    this.#end(undefined);
  }

  #closed(): void {
    this.dispatch({ type: "clientLeft" });
    this.#release();
  }

  #release(): void {
    clearTimeout(this.#deadline);
    clearInterval(this.#heartbeat);
    if (!this.#released) this.#options.released();
    this.#released = true;
  }

  #revalidate(): void {
    const { revalidate, log } = this.#options;
    revalidate().then(
      (problem) => this.dispatch({ type: "callerRevalidated", problem }),
      (error: unknown) => log.error({ err: error }, "the caller of a stream could not be revalidated"),
    );
  }

  #record(outcome: { status: number }): void {
    const { exchange, request } = this.#options;
    exchange.observer.end(exchange.observed, outcome, request.id);
  }
}

function writeHead(request: FastifyRequest, reply: FastifyReply, { rate }: Exchange): void {
  reply.hijack();
  reply.raw.writeHead(200, {
    "x-request-id": request.id,
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-accel-buffering": "no",
    ...(rate && rateLimitHeaders(rate)),
    ...(corsLines(request) && CORS_HEADERS),
  });
  reply.raw.flushHeaders();
}
