import { once } from "node:events";
import { type IncomingMessage, request as plain } from "node:http";
import { type RequestOptions, request as secure } from "node:https";
import { text } from "node:stream/consumers";
import { ApiException } from "@kubernetes/client-node";
import { linesOf } from "../../kit/lines-of.ts";
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
export async function openStream(...asked: Parameters<typeof openResponse>): Promise<AsyncIterable<string>> {
  return linesOf(await openResponse(...asked));
}

/** Resolves when the API answers, whatever it says. */
export async function reachApi(kube: Kube, signal: AbortSignal): Promise<void> {
  try {
    (await openResponse(kube, "/version", {}, { signal })).resume();
  } catch (error) {
    if (!(error instanceof ApiException)) throw error;
  }
}

/** As `openStream`, with the answer as it comes. */
export async function openResponse(
  kube: Kube,
  path: string,
  query: Record<string, string | number | boolean | undefined>,
  { quietMs, signal }: StreamOptions,
): Promise<IncomingMessage> {
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
  return response;
}
