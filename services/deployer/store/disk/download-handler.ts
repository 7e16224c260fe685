import type { IncomingMessage, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ObjectStat } from "../port.ts";
import { verifyDownload } from "./signed-url.ts";
import { refuseUpload } from "./upload-handler.ts";
import { createSlots } from "./upload-limits.ts";

export type DownloadContext = {
  secrets: readonly string[];
  log: { warn(object: object, message: string): void };
  isKey(key: string): boolean;
  stat(key: string): Promise<ObjectStat | undefined>;
  get(key: string): Promise<Readable>;
};

export const DOWNLOADS = "/downloads/";
/** Each holds an open file for as long as its client reads, however slowly: of one account, and of all. */
const LIMITS = { perUrl: 8, perOwner: 8, atOnce: 32 };

/** Answers downloads from signed URLs: 200, 403, 404, 405, 429 or 503, refusals in the error envelope. Never rejects. */
export function createDownloads({ secrets, log, isKey, stat, get }: DownloadContext) {
  const slots = createSlots(LIMITS);

  async function answer(
    req: IncomingMessage,
    res: ServerResponse,
    key: string,
    fileName: string,
  ): Promise<void> {
    try {
      const found = await stat(key);
      if (!found) return await refuseUpload(req, res, 404, "not_found", "There is no such object any more.");
      const content = await get(key);
      res.writeHead(200, {
        "content-type": found.contentType,
        "content-length": found.size,
        "content-disposition": `attachment; filename="${fileName}"`,
      });
      await pipeline(content, res);
    } catch (error) {
      if (!req.destroyed) log.warn({ err: error, key }, "a download broke off");
      if (res.headersSent) res.destroy();
      else await refuseUpload(req, res, 503, "unavailable", "The object could not be read; try again later.");
    }
  }

  return async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const [path = "", query = ""] = (req.url ?? "").split("?");
    const key = path.startsWith(DOWNLOADS) ? path.slice(DOWNLOADS.length) : "";
    const refuse = (status: number, code: string, message: string) =>
      refuseUpload(req, res, status, code, message);
    if (!isKey(key)) return refuse(404, "not_found", "There is no download at this path.");
    if (req.method !== "GET") return refuse(405, "method_not_allowed", "Downloads use GET.");
    const grant = verifyDownload(key, new URLSearchParams(query), secrets);
    if (!grant) return refuse(403, "forbidden", "The signature of this download URL is not valid.");
    if (grant.expiresAt * 1000 <= Date.now())
      return refuse(403, "forbidden", "This download URL has expired; request a new one.");
    const slot = slots.take(key, grant.owner ?? key);
    if (slot === "all")
      return refuse(503, "unavailable", "Too many downloads are in progress; try again later.");
    if (typeof slot === "string")
      return refuse(429, "rate_limited", "The account has too many downloads in progress; try again later.");
    await answer(req, res, key, grant.fileName).finally(slot);
  };
}
