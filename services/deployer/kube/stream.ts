import { once } from "node:events";
import { type IncomingMessage, request as plain } from "node:http";
import { type RequestOptions, request as secure } from "node:https";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { ApiException } from "@kubernetes/client-node";
import type { Kube } from "./client.ts";

type StreamOptions = {
  /** How long the stream may be quiet once it has begun; as long as any request by default. */
  quietMs?: number;
  signal?: AbortSignal;
};

/**
 * Asks the API for a stream and resolves with its lines when it begins; they have to be read, or the signal aborted.
 * Fails with the library's ApiException, and when the API is silent for `kube.requestMs`. Reading the lines fails when the
 * connection breaks or is quiet for too long, and when the signal aborts.
 */
export async function openStream(
  kube: Kube,
  path: string,
  query: Record<string, string | number | boolean | undefined>,
  { quietMs, signal }: StreamOptions,
): Promise<AsyncIterable<string>> {
  const url = new URL(`${kube.config.getCurrentCluster()?.server}${path}`);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) url.searchParams.set(name, String(value));
  const options: RequestOptions = { signal, timeout: kube.requestMs };
  await kube.config.applyToHTTPSOptions(options);
  const call = (url.protocol === "http:" ? plain : secure)(url, options).end();
  call.on("timeout", () => call.destroy(new Error(`The API was silent while it was asked for ${path}`)));
  const [response] = (await once(call, "response")) as [IncomingMessage];
  if (response.statusCode !== 200 && response.statusCode !== 204)
    throw new ApiException(response.statusCode ?? 0, `${path} cannot be read`, await text(response), {});
  if (quietMs) call.setTimeout(quietMs);
  for (const one of [call, response]) one.on("error", () => {});
  return linesOf(response);
}

async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  try {
    yield* createInterface({ input: response, crlfDelay: Number.POSITIVE_INFINITY });
  } finally {
    response.destroy();
  }
}
