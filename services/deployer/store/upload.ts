import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { verifyGrant } from "./signature.ts";

/** More came than `maxBytes`. */
export class TooLarge extends Error {}

/** The object may not be replaced any more. */
export class Frozen extends Error {}

export interface UploadDoor {
  secrets: readonly string[];
  logger: { warn(object: object, message: string): void };
  isKey(key: string): boolean;
  /** Stores the whole body, or nothing; throws `TooLarge` and `Frozen`. */
  write(key: string, body: AsyncIterable<Buffer>, contentType: string, maxBytes: number): Promise<void>;
}

const root = "/uploads/";
/** How much of a refused body is read and thrown away, so that the client gets to see the answer. */
const lingerBytes = 8 * 1024 ** 2;
const lingerMs = 2000;

/** One upload to a signed URL. 200, 400, 403, 404, 405, 409, 413, 415 or 503, the refusals in the error envelope. */
export async function handleUpload(
  req: IncomingMessage,
  res: ServerResponse,
  door: UploadDoor,
): Promise<void> {
  const url = new URL(req.url ?? "/", "http://localhost");
  const key = url.pathname.startsWith(root) ? url.pathname.slice(root.length) : "";
  const refuse = (status: number, code: string, message: string) =>
    answerRefusal(req, res, status, code, message);
  if (!door.isKey(key)) return refuse(404, "not_found", "There is nothing here.");
  if (req.method !== "PUT") return refuse(405, "method_not_allowed", "An upload is a PUT.");
  const grant = verifyGrant(req.method, key, url.searchParams, door.secrets);
  if (!grant) return refuse(403, "forbidden", "The signature of this upload URL is not valid.");
  if (grant.expiresAt * 1000 <= Date.now())
    return refuse(403, "forbidden", "This upload URL has expired; ask for a new one.");
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
  try {
    // When the body is not wanted any more the connection stays, for the answer.
    await door.write(key, req.iterator({ destroyOnReturn: false }), grant.contentType, grant.maxBytes);
  } catch (error) {
    if (error instanceof TooLarge) return tooLarge();
    if (error instanceof Frozen)
      return refuse(409, "archive_deployed", "This archive was deployed; ask for a new upload URL.");
    if (req.destroyed && !req.complete) return; // the client has gone, there is nobody to answer
    door.logger.warn({ err: error, key }, "an upload could not be stored");
    return refuse(503, "unavailable", "The upload could not be stored; try again later.");
  }
  res.writeHead(200, { "content-length": 0 }).end();
}

function answerRefusal(
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
    ...(status === 405 && { allow: "PUT" }),
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
      if (bytes > lingerBytes) done();
    };
    const timer = setTimeout(done, lingerMs);
    req.on("data", count).once("end", done).once("close", done).resume();
    if (req.complete || req.destroyed) done();
  });
}
