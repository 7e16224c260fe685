import type { lookup } from "node:dns";
import { request } from "node:https";
import { isIP } from "node:net";
import { isPublicAddress, lookupAllowed } from "../../../../kit/network/public-address.ts";

/** The response of a URL: its status, its body of at most `maxBytes`, and how long it may be cached. */
export type Fetched = { status: number; body: Buffer; maxAgeSeconds: number | undefined };
export type FetchDocument = (url: URL) => Promise<Fetched>;

const TIMEOUT_MS = 2_500;

/**
 * Returns a function that fetches a document over https, only from hosts of the public internet: it connects to no other
 * address, whatever a name resolves to, follows no redirect, and fails after 2.5 s or `maxBytes`. It rejects when the
 * host cannot be reached. `isAllowed`, `resolve` and `ca` are for tests.
 */
export function documentFetcher(options: {
  maxBytes: number;
  isAllowed?: (address: string) => boolean;
  resolve?: typeof lookup;
  ca?: string;
}): FetchDocument {
  const { maxBytes, isAllowed = isPublicAddress, resolve, ca } = options;

  const allowedOnly = lookupAllowed(isAllowed, resolve);

  return (url) =>
    new Promise((done, failed) => {
      if (isIP(url.hostname.replace(/[[\]]/g, ""))) throw new Error("An address is no name");
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const headers = { accept: "application/json", "user-agent": "berth" };
      const sent = request(url, { headers, signal, lookup: allowedOnly, agent: false, ca }, (response) => {
        const chunks: Buffer[] = [];
        let length = 0;
        response.on("data", (chunk: Buffer) => {
          length += chunk.length;
          chunks.push(chunk);
          if (length > maxBytes) response.destroy(new DocumentTooLarge());
        });
        response.on("error", failed);
        response.on("end", () => {
          const maxAgeSeconds = maxAgeOf(response.headers["cache-control"]);
          done({ status: response.statusCode!, body: Buffer.concat(chunks), maxAgeSeconds });
        });
      });
      sent.on("error", failed).end();
    });
}

/** The document exists, but exceeds the allowed size. */
export class DocumentTooLarge extends Error {}

function maxAgeOf(cacheControl: string | undefined): number | undefined {
  const seconds = /(?:^|[ ,])max-age=(\d{1,9})/i.exec(cacheControl ?? "")?.[1];
  return seconds === undefined ? undefined : Number(seconds);
}
