import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { verifyGrant } from "./signed-url.ts";
import { enforcePace, paceOf, TooSlow, type UploadLimits, type UploadSlots } from "./upload-limits.ts";

/** The body is larger than `maxBytes`. */
export class TooLarge extends Error {}

/** The object can no longer be replaced. */
export class Frozen extends Error {}

export type UploadContext = {
  secrets: readonly string[];
  log: { warn(object: object, message: string): void };
  isKey(key: string): boolean;
  /** Stores the whole body or nothing; throws `TooLarge` or `Frozen`. */
  write(key: string, body: AsyncIterable<Buffer>, contentType: string, maxBytes: number): Promise<void>;
  limits: UploadLimits;
  slots: UploadSlots;
};

const ROOT = "/uploads/";
/** How much of a refused body is read and discarded, so that the client can read the answer. */
const DRAIN_BYTES = 8 * 1024 ** 2;
const DRAIN_MS = 2000;

/** The `Retry-After` of an upload for which there was no slot. */
const RETRY_SECONDS = 5;

/**
 * Answers one upload to a signed URL: 200, 403, 404, 405, 408, 409, 413, 415, 429 or 503, refusals in the error
 * envelope. Never rejects.
 */
export async function handleUpload(
  req: IncomingMessage,
  res: ServerResponse,
  context: UploadContext,
): Promise<void> {
  const [path = "", query = ""] = (req.url ?? "").split("?");
  const key = path.startsWith(ROOT) ? path.slice(ROOT.length) : "";
  const refuse = (status: number, code: string, message: string) =>
    refuseUpload(req, res, status, code, message);
  if (!context.isKey(key)) return refuse(404, "not_found", "There is no upload at this path.");
  if (req.method !== "PUT") return refuse(405, "method_not_allowed", "Uploads use PUT.");
  const grant = verifyGrant(req.method, key, new URLSearchParams(query), context.secrets);
  if (!grant) return refuse(403, "forbidden", "The signature of this upload URL is not valid.");
  if (grant.expiresAt * 1000 <= Date.now())
    return refuse(403, "forbidden", "This upload URL has expired; request a new one.");
  if (req.headers["content-type"] !== grant.contentType) {
    return refuse(
      415,
      "unsupported_media_type",
      `The upload must have the Content-Type ${grant.contentType}.`,
    );
  }
  const tooLarge = () =>
    refuse(413, "payload_too_large", `The upload may have at most ${grant.maxBytes} bytes.`);
  if (Number(req.headers["content-length"] ?? 0) > grant.maxBytes) return tooLarge();
  const slot = context.slots.take(key, grant.owner ?? key);
  if (slot === "url")
    return refuse(429, "rate_limited", "Another upload to this URL is in progress; try again later.");
  if (slot === "owner")
    return refuse(429, "rate_limited", "The account has too many uploads in progress; try again later.");
  if (slot === "all") return refuse(503, "unavailable", "Too many uploads are in progress; try again later.");
  try {
    await context
      .write(key, enforcePace(req, paceOf(context.limits, grant.maxBytes)), grant.contentType, grant.maxBytes)
      .finally(slot);
  } catch (error) {
    if (error instanceof TooLarge) return tooLarge();
    if (error instanceof Frozen)
      return refuse(409, "archive_deployed", "This archive was deployed; request a new upload URL.");
    if (error instanceof TooSlow) return refuse(408, "request_timeout", error.message);
    if (req.destroyed && !req.complete) return; // the client has disconnected
    context.log.warn({ err: error, key }, "an upload could not be stored");
    return refuse(503, "unavailable", "The upload could not be stored; try again later.");
  }
  res.writeHead(200, { "content-length": 0 }).end();
}

/** Answers with the error envelope; resolves once the client has had time to read it. */
export function refuseUpload(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  code: string,
  message: string,
): Promise<void> {
  const requestId = String(req.headers["x-request-id"] ?? randomUUID());
  const body = JSON.stringify({ error: { code, message, requestId, details: [] } });
  res.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    "x-request-id": requestId,
    ...(status === 405 && { allow: req.url?.startsWith(ROOT) ? "PUT" : "GET" }),
    ...((status === 429 || status === 503) && { "retry-after": String(RETRY_SECONDS) }),
    ...(!req.complete && { connection: "close" }),
  });
  res.write(body);
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      req.off("data", count);
      res.end();
      resolve();
    };
    let bytes = 0;
    const count = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > DRAIN_BYTES) done();
    };
    const timer = setTimeout(done, DRAIN_MS);
    req.on("data", count).once("end", done).once("close", done).resume();
    if (req.complete || req.destroyed) done();
  });
}
