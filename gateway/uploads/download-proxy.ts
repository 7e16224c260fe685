import { pipeline } from "node:stream/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Pool } from "undici";
import type { Logger } from "../../services/kit/log.ts";
import { problem, unreachable } from "../http/problem.ts";
import { errorResponse, writeResponse } from "../http/response.ts";
import { CLIENT_LEFT, type Observer, observer } from "../metrics/request-metrics.ts";
import { readBounded } from "../upstream/read-bounded.ts";
import { toProblem } from "./upload-proxy.ts";

const MAX_REFUSAL = 64 * 1024;
const IDLE_MS = 120_000;
/** More than the deployer answers at once, so that it refuses the rest itself, with the reason. */
const MAX_CONCURRENT = 48;
const RETRY_SECONDS = 5;

const TOO_MANY = problem(503, "unavailable", "Too many downloads are under way; try again later.", {
  retryAfter: RETRY_SECONDS,
});

/**
 * Registers GET /downloads/*, which streams from the deployer of a single machine: that checks the signed URL. What it sends
 * is data of users, so browsers only save it.
 */
export function registerDownloads(
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
  const measure = observer("GET", "/downloads/*", options);
  app.get("/downloads/*", { exposeHeadRoute: false }, (request, reply) => {
    reply.hijack();
    const free = concurrent < MAX_CONCURRENT ? pool : undefined;
    concurrent++;
    void proxyDownload(request, reply, free, measure).finally(() => concurrent--);
  });
  return { close: () => pool.close() };
}

async function proxyDownload(
  request: FastifyRequest,
  reply: FastifyReply,
  pool: Pool | undefined,
  measure: Observer,
): Promise<void> {
  const observed = measure.begin(request.raw.headers.traceparent as string | undefined);
  const abort = new AbortController();
  const onClose = () => abort.abort();
  reply.raw.once("close", onClose);
  const refused = await send(request, reply, pool, abort.signal).catch((error: Error) =>
    reply.raw.headersSent ? undefined : errorResponse(unreachable("deployer", error), request.id),
  );
  reply.raw.off("close", onClose);
  if (refused && !abort.signal.aborted) {
    writeResponse(reply.raw, request.id, refused, undefined);
    return measure.end(observed, refused, request.id);
  }
  // A body that broke off: the client sees it by the length.
  if (!reply.raw.writableFinished) reply.raw.destroy();
  const isWhole = reply.raw.writableFinished;
  measure.end(observed, isWhole ? { status: 200 } : CLIENT_LEFT, request.id);
}

/** Returns a refusal; undefined once the whole object was sent. Throws when it breaks off. */
async function send(
  request: FastifyRequest,
  reply: FastifyReply,
  pool: Pool | undefined,
  signal: AbortSignal,
) {
  if (!pool) return errorResponse(TOO_MANY, request.id);
  const headers = { "x-request-id": request.id };
  const {
    statusCode,
    headers: given,
    body,
  } = await pool.request({
    ...{ method: "GET", path: request.raw.url!, headers, signal },
  });
  if (statusCode !== 200)
    return errorResponse(toProblem(statusCode, await readBounded(body, MAX_REFUSAL)), request.id);
  reply.raw.writeHead(200, {
    "content-type": String(given["content-type"] ?? "application/octet-stream"),
    "content-length": String(given["content-length"]),
    "content-disposition": String(given["content-disposition"] ?? "attachment"),
    "cache-control": "no-store",
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "x-request-id": request.id,
  });
  await pipeline(body, reply.raw);
  return undefined;
}
