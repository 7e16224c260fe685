import type { IncomingMessage } from "node:http";

const IDLE_MS = 60_000;

/**
 * Returns what a URL answers, whose content is to be read. Not by `fetch`: that of Node.js ends the process, with an error
 * that nobody can catch, when a server closes the connection before who reads is done (nodejs/undici#5360).
 */
export async function downloadFrom(url: string, signal: AbortSignal): Promise<IncomingMessage> {
  const { get } = url.startsWith("https:") ? await import("node:https") : await import("node:http");
  return new Promise((resolve, reject) => {
    const request = get(url, { signal }, resolve).on("error", reject);
    request.setTimeout(IDLE_MS, () => request.destroy(new Error("the server does not answer")));
  });
}
