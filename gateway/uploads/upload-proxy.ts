import { PassThrough } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Pool } from "undici";
import type { Logger } from "../../services/kit/log.ts";
import { type Problem, problem, unavailable, unreachable } from "../http/problem.ts";
import { drainBody, errorResponse, type GatewayResponse, writeResponse } from "../http/response.ts";
import { CLIENT_LEFT, type Observer, observer } from "../metrics/request-metrics.ts";
import { readBounded } from "../upstream/read-bounded.ts";

const MAX_RESPONSE = 64 * 1024;
const IDLE_MS = 120_000;
/** More than the deployer accepts at once, so that it refuses the rest itself, with the reason. */
const MAX_CONCURRENT = 128;
/** After how many seconds a client may try again. */
const RETRY_SECONDS = 5;

const FORWARDED_HEADERS = ["content-type", "content-length", "content-encoding", "traceparent"];

/**
 * Registers PUT /uploads/*, which streams to the deployer: that checks the signed URL, the type and the size. Nothing
 * is buffered; a connection that breaks on one side is closed on the other.
 */
export function registerUploads(
  app: FastifyInstance,
  deployerUrl: string,
  options: { tracing: boolean; log: Logger },
) {
  const pool = new Pool(deployerUrl, {
    connections: MAX_CONCURRENT,
    headersTimeout: IDLE_MS,
    bodyTimeout: IDLE_MS,
  });
  let concurrent = 0;
  const measure = observer("PUT", "/uploads/*", options);
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // The body stays a stream, whatever its type.
    scope.addContentTypeParser("*", (_request, _payload, done) => done(null));
    scope.put("/uploads/*", (request, reply) => {
      reply.hijack();
      const free = concurrent < MAX_CONCURRENT ? pool : undefined;
      concurrent++;
      void proxyUpload(request, reply, free, measure).finally(() => concurrent--);
    });
  });
  return { close: () => pool.close() };
}

async function proxyUpload(
  request: FastifyRequest,
  reply: FastifyReply,
  pool: Pool | undefined,
  measure: Observer,
): Promise<void> {
  const { raw } = request;
  const observed = measure.begin(raw.headers.traceparent as string | undefined);
  const abort = new AbortController();
  const onClose = () => abort.abort();
  reply.raw.once("close", onClose);
  // Not the request itself: destroying it would end the connection that carries the response.
  const body = new PassThrough();
  raw.once("error", (error) => body.destroy(error));
  raw.pipe(body).on("error", () => {});

  const response = pool
    ? await send(request, pool, body, abort.signal).catch((error: Error) =>
        errorResponse(unreachable("deployer", error), request.id),
      )
    : errorResponse(TOO_MANY, request.id);
  reply.raw.off("close", onClose);
  if (abort.signal.aborted) return measure.end(observed, CLIENT_LEFT, request.id);
  writeResponse(reply.raw, request.id, response, undefined);
  raw.unpipe(body);
  body.destroy();
  drainBody(raw);
  measure.end(observed, response, request.id);
}

async function send(
  request: FastifyRequest,
  pool: Pool,
  body: PassThrough,
  signal: AbortSignal,
): Promise<GatewayResponse> {
  const headers: Record<string, string> = { "x-request-id": request.id };
  for (const name of FORWARDED_HEADERS) {
    const value = request.headers[name];
    if (typeof value === "string") headers[name] = value;
  }
  const path = request.raw.url!;
  const response = await pool.request({ method: "PUT", path, headers, body, signal });
  const text = await readBounded(response.body, MAX_RESPONSE);
  if (response.statusCode < 400)
    return { status: response.statusCode, body: text.length > 0 ? text : undefined };
  const retryAfter = Number(response.headers["retry-after"]) || undefined;
  const refusal = toProblem(response.statusCode, text);
  return errorResponse({ ...refusal, ...(retryAfter && { retryAfter }) }, request.id);
}

const TOO_MANY = problem(503, "unavailable", "Too many uploads are under way; try again later.", {
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

/** Returns the deployer's refusal: its own `{error: {code, message, details}}`, else what the status means. */
export function toProblem(status: number, text: Buffer): Problem {
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
