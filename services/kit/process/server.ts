import http from "node:http";
import http2 from "node:http2";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { idempotencyInterceptor, sweepAnswers } from "../idempotency/idempotency.ts";
import type { Logger } from "../log.ts";
import { namesThisMachine } from "../network/own-origin.ts";
import type { Pool } from "../postgres/db.ts";
import { currentPathsByFormer } from "../rpc/former-names.ts";
import { rulesOf, serverInterceptor } from "../rpc/interceptor.ts";
import { createUnaryJson } from "../rpc/json/unary-json.ts";
import { metricsText } from "../telemetry.ts";
import { closeConnectionsOnShutdown, closeGracefully } from "./graceful-close.ts";
import { registerHealth, registerReflection } from "./grpc-health-reflection.ts";

export type ServerOptions = {
  host: string;
  port: number;
  grpcPort: number;
  keys: Buffer[];
  log: Logger;
  /** Registers the handlers. The server does not start with a method that has no role or takes a stream. */
  routes: (router: ConnectRouter) => void;
  /** The database in which answers to POSTs are stored under their Idempotency-Key. Without it, keys are ignored. */
  answers?: Pool;
  /** Whether the process can answer now, for /readyz and gRPC health checking. */
  ready: () => Promise<boolean>;
  /** Whether what is done here takes effect elsewhere, for /readyz. */
  eventsFlow?: () => Promise<boolean>;
  /** A line on what was found at this start, for operators, which /readyz shows. */
  detail?: () => Promise<string>;
  /** Handles requests that are not RPCs. When it returns false, the answer is 404. */
  other?: (req: http.IncomingMessage, res: http.ServerResponse) => boolean;
  /** Takes over the connections of some requests that ask for another protocol; the others are answered as usual. */
  upgrades?: Upgrades;
};

export type Upgrades = {
  takes: (req: http.IncomingMessage) => boolean;
  take: (req: http.IncomingMessage, socket: Duplex, head: Buffer) => void;
  /** Ends those that were taken over, soon. */
  stop: () => void;
};

export type RunningServer = { port: number; grpcPort: number; stop: () => Promise<void> };

/** The slowest requests are uploads, which have limits of their own. */
const REQUEST_MS = 1_200_000;
/** How long requests under way may take once the process stops. */
const STOP_MS = 4_000;
/** Of health checking and reflection; other methods have limits of their own (`rpc/unary-json`). */
const MAX_MESSAGE = 64 * 1024;
const JSON_OPTIONS = { ignoreUnknownFields: false, alwaysEmitImplicit: true };

/**
 * Serves RPCs over Connect (HTTP/1.1) and gRPC (h2c, on a port of its own), and /healthz, /readyz and /metrics. `stop`
 * accepts no new requests, ends streams, and waits up to 4 s for requests under way.
 */
export async function serve(options: ServerOptions): Promise<RunningServer> {
  const { answers, upgrades } = options;
  const stopping = new AbortController();
  let currentPaths = new Map<string, string>();
  const interceptors = [serverInterceptor(options), ...(answers ? [idempotencyInterceptor(answers)] : [])];
  const unaryJson = createUnaryJson({
    interceptors,
    jsonOptions: JSON_OPTIONS,
    shutdownSignal: stopping.signal,
  });
  const rpc = connectNodeAdapter({
    routes: (router) => {
      options.routes(unaryJson.recording(router));
      for (const { method } of router.handlers) rulesOf(method);
      const services = [...new Set(router.handlers.map(({ service }) => service))];
      registerHealth(router, services, options.ready);
      registerReflection(router, services);
      currentPaths = currentPathsByFormer(services);
    },
    interceptors,
    jsonOptions: JSON_OPTIONS,
    acceptCompression: [],
    readMaxBytes: MAX_MESSAGE,
    // Streams end when it aborts the `ctx.signal` of their handlers.
    shutdownSignal: stopping.signal,
    fallback: (req, res) => {
      const [request, response] = [req as http.IncomingMessage, res as http.ServerResponse];
      if (answerOperational(options, request, response) || options.other?.(request, response)) return;
      response.writeHead(404).end();
    },
  });

  const answer: typeof rpc = (req, res) => {
    req.url = currentPaths.get(req.url ?? "") ?? req.url;
    if (!(req instanceof http.IncomingMessage) || !unaryJson.answer(req, res as http.ServerResponse))
      rpc(req, res);
  };
  const limits = { keepAliveTimeout: 75_000, requestTimeout: REQUEST_MS };
  const shouldUpgradeCallback = (req: http.IncomingMessage) => upgrades?.takes(req) === true;
  const plain = http.createServer({ ...limits, shouldUpgradeCallback }, (req, res) => {
    closeConnectionsOnShutdown(res);
    answer(req, res);
  });
  if (upgrades) plain.on("upgrade", upgrades.take);
  const h2c = http2.createServer({}, answer);
  const sessions = new Set<http2.ServerHttp2Session>();
  h2c.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
  });
  const port = await listen(plain, options.port, options.host);
  const grpcPort = await listen(h2c, options.grpcPort, options.host);
  const sweep = answers && sweepAnswers(answers, options.log);
  return {
    port,
    grpcPort,
    stop: async () => {
      const closed = Promise.all([closeGracefully(plain, STOP_MS), close(h2c), sweep?.stop()]);
      stopping.abort();
      upgrades?.stop();
      for (const session of sessions) session.close();
      const late = setTimeout(() => {
        for (const session of sessions) session.destroy();
      }, STOP_MS);
      await closed;
      clearTimeout(late);
    },
  };
}

/** What balancers ask: without events a process answers as before, and they wait in the outbox. */
export const READY_TO_ANSWER = "/readyz?exclude=events";

/** Returns what /readyz answers. */
export async function readiness(
  { ready, eventsFlow = async () => true, detail }: Pick<ServerOptions, "ready" | "eventsFlow" | "detail">,
  url: string | undefined,
) {
  const without = url === READY_TO_ANSWER;
  const [answers, flows] = await Promise.all([ready().catch(() => false), without || eventsFlow()]);
  if (!answers) return { status: 503, text: "not ready\n" };
  if (!flows) return { status: 503, text: "events do not flow\n" };
  const more = without ? undefined : await detail?.().catch(() => undefined);
  return { status: 200, text: more === undefined ? "ready\n" : `ready\n${more}\n` };
}

/** Answers /healthz, /readyz and /metrics. Returns false for other paths. */
function answerOperational(
  options: ServerOptions,
  req: http.IncomingMessage,
  res: http.ServerResponse,
): boolean {
  const say = (status: number, type: string, body: string) => {
    res.writeHead(status, { "content-type": type });
    res.end(body);
  };
  if (req.method !== "GET") return false;
  // On one machine a browser could ask, for a page whose name was made to point here.
  if (options.host === "127.0.0.1" && req instanceof http.IncomingMessage && !namesThisMachine(req))
    return false;
  if (req.url === "/healthz") say(200, "text/plain", "ok\n");
  else if (req.url === "/readyz" || req.url === READY_TO_ANSWER)
    void readiness(options, req.url).then(({ status, text }) => say(status, "text/plain", text));
  else if (req.url === "/metrics")
    metricsText().then(
      (body) => say(200, "text/plain; version=0.0.4", body),
      () => say(500, "text/plain", "no metrics\n"),
    );
  else return false;
  return true;
}

export function listen(server: http.Server | http2.Http2Server, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve((server.address() as AddressInfo).port);
    });
  });
}

function close(server: http2.Http2Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
