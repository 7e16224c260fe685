import { type IncomingMessage, maxHeaderSize, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from "fastify";
import type { Logger } from "../../services/kit/log.ts";
import { closeConnectionsOnShutdown } from "../../services/kit/process/graceful-close.ts";
import { readiness } from "../../services/kit/process/server.ts";
import { wants } from "./accept.ts";
import { limitBodyTime } from "./body-deadline.ts";
import { answerPreflight, preflightOf } from "./cors.ts";
import { noEndpoint } from "./no-endpoint.ts";
import { errorEnvelope, inBytes, internal, type Problem, problem, unreadable } from "./problem.ts";
import { requestId } from "./request-id.ts";
import { errorResponse, type GatewayResponse, writeResponse } from "./response.ts";
import { sendResponse } from "./send-response.ts";

/** Longer than any name a path may hold; the router answers 404 above it. */
const MAX_PARAM = 512;
const KEEP_ALIVE_MS = 75_000;
/** A connection that is idle for this long is closed. */
const IDLE_MS = 150_000;

const UNSUPPORTED_ENCODING = Object.assign(new Error("unsupported content encoding"), { statusCode: 415 });

export type App = FastifyInstance;

/**
 * Returns the HTTP server: a request id on every response, bodies as bytes, every error in the envelope, and
 * /healthz and /readyz. Other routes are registered by the modules that answer them.
 */
export function createApp(options: {
  log: Logger;
  trustProxy: string[] | undefined;
  /** The path before all routes of the API. */
  prefix: string;
  /** Whether events reach this gateway, for /readyz. */
  eventsFlow: () => Promise<boolean>;
  /** How long the body of a request may take to arrive. */
  bodyMs: number;
  /** Where the metadata of the API as a protected resource is. */
  resourceMetadata: () => string;
  /** Returns the page for a person who opened a path that is none. */
  notFoundPage: (sentence: string) => Pick<GatewayResponse, "type" | "body" | "more">;
  /** Which requests that ask for another protocol get it. */
  takesOver: (request: IncomingMessage) => boolean;
}): App {
  const { log } = options;
  const app = fastify({
    logger: false,
    http: { shouldUpgradeCallback: options.takesOver },
    genReqId: (raw) => requestId(raw.headers["x-request-id"]),
    trustProxy: options.trustProxy ?? false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionTimeout: IDLE_MS,
    forceCloseConnections: "idle",
    return503OnClosing: false,
    routerOptions: {
      maxParamLength: MAX_PARAM,
      // Queries are read against the descriptors (request-message.ts).
      querystringParser: () => ({}),
    },
    frameworkErrors: (_error, request, reply) => {
      refuse(request, reply, problem(400, "malformed_request", "The path cannot be decoded."));
    },
    clientErrorHandler: (error, socket) => answerUnparsable(error as NodeJS.ErrnoException, socket),
  });
  app.decorateRequest("exchange", undefined);
  app.decorate("stopping", false);
  app.decorate("resourceMetadata", options.resourceMetadata);
  app.addHook("preClose", async () => {
    app.stopping = true;
  });
  limitBodyTime(app, options.bodyMs);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
    const encoding = request.headers["content-encoding"] ?? "identity";
    done(encoding === "identity" ? null : UNSUPPORTED_ENCODING, body);
  });

  const registered: { methods: string[]; url: string; path: RegExp; cors: boolean }[] = [];
  app.addHook("onRoute", ({ method, url, config }) => {
    const pattern = url.replaceAll(".", "\\.").replace("*", ".*").replaceAll(/:\w+/g, "[^/]+");
    const path = new RegExp(`^${pattern}$`);
    registered.push({ methods: [method].flat(), url, path, cors: config?.cors === true });
  });
  const methodsOf = (routes: typeof registered) =>
    [...new Set(routes.flatMap(({ methods }) => methods))].sort().join(", ");
  // Documented as in the API's document: /accounts/{accountId}.
  const findRoute = (path: string) =>
    registered
      .find((route) => route.path.test(path) && !route.url.includes("*"))
      ?.url.replaceAll(/:(\w+)/g, "{$1}");
  app.setNotFoundHandler((request, reply) => {
    const path = request.raw.url!.split("?")[0]!;
    const here = registered.filter((route) => route.path.test(path));
    const wanted = preflightOf(request);
    const forScripts = here.filter(({ methods, cors }) => cors && wanted && methods.includes(wanted));
    if (forScripts.length > 0) answerPreflight(request, reply, methodsOf(forScripts));
    else if (here.some(({ methods }) => methods.includes(request.method)))
      refuse(request, reply, problem(404, "not_found", "There is no such file."));
    else if (here.length > 0) methodNotAllowed(request, reply, methodsOf(here));
    else {
      const isPerson = request.method === "GET" && wants(request.headers.accept, "text/html");
      const refusal = noEndpoint(path, { prefix: options.prefix, findRoute, isPerson });
      const page =
        isPerson && !path.startsWith(`${options.prefix}/`) && options.notFoundPage(refusal.message);
      sendResponse(request, reply, { ...errorResponse(refusal, request.id), ...page });
    }
  });
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const refusal = unreadable(error, request.routeOptions.bodyLimit) ?? internal(request.id);
    if (refusal.status >= 500) log.error({ err: error, requestId: request.id }, "request failed");
    refuse(request, reply, refusal);
  });
  registerOperations(app, options);
  app.server.on("checkExpectation", refuseExpectation);
  app.server.prependListener("request", (_request, response) => closeConnectionsOnShutdown(response));
  return app;
}

/** Stops accepting connections and resolves when open requests are answered; after 8 s their connections are closed. */
export async function closeApp(app: App): Promise<void> {
  const idle = setInterval(() => app.server.closeIdleConnections(), 100);
  const late = setTimeout(() => app.server.closeAllConnections(), 8_000);
  await app.close();
  clearInterval(idle);
  clearTimeout(late);
}

function refuse(request: FastifyRequest, reply: FastifyReply, refusal: Problem): void {
  sendResponse(request, reply, errorResponse(refusal, request.id));
}

function methodNotAllowed(request: FastifyRequest, reply: FastifyReply, allow: string): void {
  const refusal = problem(405, "method_not_allowed", `This path takes ${allow}.`);
  sendResponse(request, reply, { ...errorResponse(refusal, request.id), allow });
}

/** Answers a request whose Expect header is not 100-continue: no route meets it. */
function refuseExpectation({ headers }: IncomingMessage, response: ServerResponse): void {
  const id = requestId(headers["x-request-id"]);
  const refusal = problem(417, "malformed_request", "The Expect header may only be 100-continue.");
  writeResponse(response, id, { ...errorResponse(refusal, id), close: true }, undefined);
}

/** Answers what cannot be parsed as HTTP: there is no request yet. */
function answerUnparsable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed || !socket.writable) return void socket.destroy();
  const [status, code, message] =
    error.code === "HPE_HEADER_OVERFLOW"
      ? [
          "431 Request Header Fields Too Large",
          "malformed_request",
          `The headers may have at most ${inBytes(maxHeaderSize)}.`,
        ]
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? ["408 Request Timeout", "request_timeout", "The request took too long to arrive."]
        : ["400 Bad Request", "malformed_request", "This is not an HTTP request."];
  const id = requestId(undefined);
  const body = errorEnvelope(problem(400, code, message), id);
  const head = [
    `HTTP/1.1 ${status}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${body.length}`,
    `x-request-id: ${id}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body.toString()}`);
}

function registerOperations(app: App, { eventsFlow }: { eventsFlow: () => Promise<boolean> }): void {
  const text = (request: FastifyRequest, reply: FastifyReply, status: number, body: string) =>
    void reply.code(status).header("x-request-id", request.id).type("text/plain").send(body);
  app.get("/healthz", (request, reply) => text(request, reply, 200, "ok\n"));
  app.get("/readyz", async (request, reply) => {
    const answer = await readiness({ ready: async () => true, eventsFlow }, request.url);
    text(request, reply, answer.status, answer.text);
    return reply;
  });
}
