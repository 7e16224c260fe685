import { PassThrough } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type Dispatcher, Pool } from "undici";
import type { Logger } from "../../services/kit/log.ts";
import { type Problem, problem, unavailable } from "../http/problem.ts";
import { type Observer, observer } from "../http/request-metrics.ts";
import { drainBody, errorResponse, type GatewayResponse, writeResponse } from "../http/response.ts";

const MAX_ANSWER = 64 * 1024;
const IDLE_MS = 120_000;
/** More than the deployer takes at once: what it has no room for it refuses, with the reason. */
const AT_ONCE = 128;
/** After how many seconds a client may try again. */
const RETRY_SECONDS = 5;

const PASSED = ["content-type", "content-length", "content-encoding", "traceparent"];

/**
 * PUT /uploads/*: streams to the deployer, which checks the signed URL, the type and the size while
 * it writes. Nothing is buffered; a break on one side breaks the other.
 */
export function uploads(
  app: FastifyInstance,
  deployerUrl: string,
  options: { tracing: boolean; log: Logger },
) {
  const pool = new Pool(deployerUrl, { connections: AT_ONCE, headersTimeout: IDLE_MS, bodyTimeout: IDLE_MS });
  let underWay = 0;
  const watch = observer("PUT", "/uploads/*", options);
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // The body stays a stream, whatever its type.
    scope.addContentTypeParser("*", (_request, _payload, done) => done(null));
    scope.put("/uploads/*", (request, reply) => {
      reply.hijack();
      const free = underWay < AT_ONCE ? pool : undefined;
      underWay++;
      void pass(request, reply, free, watch, options.log).finally(() => underWay--);
    });
  });
  return { close: () => pool.close() };
}

async function pass(
  request: FastifyRequest,
  reply: FastifyReply,
  pool: Pool | undefined,
  watch: Observer,
  log: Logger,
): Promise<void> {
  const { raw } = request;
  const observed = watch.begin(raw.headers.traceparent as string | undefined);
  const abort = new AbortController();
  const gone = () => abort.abort();
  reply.raw.once("close", gone);
  // Not the request itself: its destruction would end the connection that has to carry the answer.
  const body = new PassThrough();
  raw.once("error", (error) => body.destroy(error));
  raw.pipe(body).on("error", () => {});

  const asked = pool ? ask(request, pool, body, abort.signal) : errorResponse(FULL, request.id);
  const answer = await Promise.resolve(asked).catch((error: Error) => {
    if (!abort.signal.aborted) log.warn({ err: error, requestId: request.id }, "an upload broke");
    return errorResponse(unavailable(), request.id);
  });
  reply.raw.off("close", gone);
  if (!abort.signal.aborted) {
    writeResponse(reply.raw, request.id, answer, undefined);
    raw.unpipe(body);
    body.destroy();
    drainBody(raw);
  }
  watch.end(observed, answer, request.id);
}

async function ask(
  request: FastifyRequest,
  pool: Pool,
  body: PassThrough,
  signal: AbortSignal,
): Promise<GatewayResponse> {
  const headers: Record<string, string> = { "x-request-id": request.id };
  for (const name of PASSED) {
    const value = request.headers[name];
    if (typeof value === "string") headers[name] = value;
  }
  const path = request.raw.url!;
  const answered = await pool.request({ method: "PUT", path, headers, body, signal });
  const text = await readSome(answered.body);
  if (answered.statusCode >= 400) {
    const retryAfter = Number(answered.headers["retry-after"]) || undefined;
    return errorResponse(
      { ...toProblem(answered.statusCode, text), ...(retryAfter && { retryAfter }) },
      request.id,
    );
  }
  return { status: answered.statusCode, body: text.length > 0 ? text : undefined };
}

async function readSome(body: Dispatcher.ResponseData["body"]): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_ANSWER) break;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const FULL = problem(503, "unavailable", "Too many uploads are under way; try again later.", {
  retryAfter: RETRY_SECONDS,
});

const CODES: Record<number, [code: string, message: string]> = {
  400: ["malformed_request", "The upload was refused."],
  401: ["unauthenticated", "The upload URL is not valid."],
  403: ["forbidden", "The upload URL is not valid or has expired."],
  404: ["not_found", "There is no such upload."],
  405: ["method_not_allowed", "Uploads take PUT."],
  408: ["request_timeout", "The upload was too slow."],
  409: ["conflict", "The upload was already made."],
  413: ["payload_too_large", "The archive is too large."],
  415: ["unsupported_media_type", "The upload must have the content type that was returned with its URL."],
  422: ["validation_failed", "The upload was refused."],
  429: ["rate_limited", "Too many uploads at once; try again later."],
  503: ["unavailable", unavailable().message],
};

/** The deployer's refusal: its own `{error: {code, message, details}}` where it says so, else what the status means. */
function toProblem(status: number, text: Buffer): Problem {
  if (status >= 500 && status !== 503) return unavailable();
  const [code, message] = CODES[status] ?? ["malformed_request", "The upload was refused."];
  try {
    const { error: said } = JSON.parse(text.toString()) as { error?: Partial<Problem> };
    if (typeof said?.code === "string" && typeof said.message === "string")
      return { status, code: said.code, message: said.message, details: said.details ?? [] };
  } catch {
    // Not JSON: the status says enough.
  }
  return problem(status, code, message);
}
