import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { Part } from "./copy-request.ts";

const ATTEMPTS = 5;
const RETRY_MS = 1_000;
const IDLE_MS = 60_000;

/**
 * Sends what `source` yields as the parts of an object, each from `file`, so that it can be sent again. Returns how many
 * they were. Throws when there are more than `parts`, or the object store does not take one.
 */
export async function sendParts(
  source: AsyncIterable<Buffer>,
  parts: Part[],
  file: string,
  retryMs = RETRY_MS,
): Promise<number> {
  const pieces = source[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  let ended = false;

  /** Writes the next part to the file; returns its size, less than `most` when it is the last. */
  async function fill(most: number): Promise<number> {
    const handle = await open(file, "w", 0o600);
    try {
      let size = 0;
      while (size < most && !ended) {
        if (rest.length === 0) {
          const next = await pieces.next();
          if (next.done) ended = true;
          else rest = next.value;
        }
        const piece = rest.subarray(0, most - size);
        await handle.appendFile(piece);
        size += piece.length;
        rest = rest.subarray(piece.length);
      }
      return size;
    } finally {
      await handle.close();
    }
  }

  for (let sent = 0; ; sent++) {
    const part = parts[sent];
    if (!part) throw new Error("the data is larger than what a backup may have");
    const size = await fill(part.bytes);
    if (size === 0) return sent;
    await put(part.url, file, size, retryMs);
    if (ended) return sent + 1;
  }
}

async function put(url: string, file: string, size: number, retryMs: number): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const status = await putOnce(url, file, size).catch(
      (error: NodeJS.ErrnoException) => error.code ?? "failed",
    );
    if (status === 200) return;
    const again = typeof status !== "number" || status >= 500;
    // Without the URL, which is a secret.
    if (!again || attempt === ATTEMPTS) throw new Error(`the object store does not take a part: ${status}`);
    await delay(retryMs * attempt);
  }
}

function putOnce(url: string, file: string, size: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = (url.startsWith("https:") ? requestHttps : requestHttp)(url, {
      method: "PUT",
      headers: { "Content-Length": size },
    });
    request.setTimeout(IDLE_MS, () => request.destroy(new Error("the object store does not answer")));
    request.on("response", (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    request.on("error", reject);
    pipeline(createReadStream(file), request).catch(reject);
  });
}
