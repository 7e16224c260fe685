import { PassThrough } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type Dispatcher, Pool } from "undici";
import type { Logger } from "../services/kit/log.ts";
import { type Answer, linger, refusal, write } from "./answer.ts";
import { type Observer, observer } from "./observe.ts";
import { type Problem, problem, unavailable } from "./problem.ts";

const MAX_ANSWER = 64 * 1024;
const IDLE_MS = 120_000;

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
  const pool = new Pool(deployerUrl, { connections: 64, headersTimeout: IDLE_MS, bodyTimeout: IDLE_MS });
  const watch = observer("PUT", "/uploads/*", options);
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // The body stays a stream, whatever its type.
    scope.addContentTypeParser("*", (_request, _payload, done) => done(null));
    scope.put("/uploads/*", (request, reply) => {
      reply.hijack();
      void pass(request, reply, pool, watch, options.log);
    });
  });
  return { close: () => pool.close() };
}

async function pass(
  request: FastifyRequest,
  reply: FastifyReply,
  pool: Pool,
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

  const answer = await ask(request, pool, body, abort.signal).catch((error: Error) => {
    if (!abort.signal.aborted) log.warn({ err: error, requestId: request.id }, "an upload broke");
    return refusal(unavailable(), request.id);
  });
  reply.raw.off("close", gone);
  if (!abort.signal.aborted) {
    write(reply.raw, request.id, answer, undefined);
    raw.unpipe(body);
    body.destroy();
    linger(raw);
  }
  watch.end(observed, answer, request.id);
}

async function ask(
  request: FastifyRequest,
  pool: Pool,
  body: PassThrough,
  signal: AbortSignal,
): Promise<Answer> {
  const headers: Record<string, string> = { "x-request-id": request.id };
  for (const name of PASSED) {
    const value = request.headers[name];
    if (typeof value === "string") headers[name] = value;
  }
  const path = request.raw.url!;
  const answered = await pool.request({ method: "PUT", path, headers, body, signal });
  const text = await readSome(answered.body);
  if (answered.statusCode >= 400) return refusal(toProblem(answered.statusCode, text), request.id);
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

const CODES: Record<number, [code: string, message: string]> = {
  400: ["malformed_request", "The upload was refused."],
  401: ["unauthenticated", "The upload URL is not valid."],
  403: ["forbidden", "The upload URL is not valid or has expired."],
  404: ["not_found", "There is no such upload."],
  405: ["method_not_allowed", "Uploads take PUT."],
  409: ["conflict", "The upload was already made."],
  413: ["payload_too_large", "The archive is too large."],
  415: ["unsupported_media_type", "The upload must have the content type that was returned with its URL."],
  422: ["validation_failed", "The upload was refused."],
};

/** The deployer's refusal: its own `{error: {code, message, details}}` where it says so, else what the status means. */
function toProblem(status: number, text: Buffer): Problem {
  if (status >= 500) return unavailable();
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
