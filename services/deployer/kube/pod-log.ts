import { once } from "node:events";
import { type IncomingMessage, request as plain } from "node:http";
import { type RequestOptions, request as secure } from "node:https";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { ApiException } from "@kubernetes/client-node";
import type { Kube } from "./client.ts";

export type PodLogQuery = {
  container: string;
  /** Reads the previous instance of the container instead of the current one. */
  previous?: boolean;
  follow?: boolean;
  /** Precise to the second. */
  since?: Date;
  tailLines?: number;
  /** Only on clusters that keep the streams apart, and not with `tailLines`. */
  stream?: "Stdout" | "Stderr";
};

/** A followed log that is quiet for this long is given up: the connection may be dead. The reader asks again. */
const QUIET_MS = 5 * 60_000;

/**
 * Yields the lines of a pod's log, oldest first, each preceded by the time at which it was written (RFC 3339 with
 * nanoseconds). Fails with the library's ApiException, and when the API is silent for `kube.requestMs`. A followed log
 * ends without an error also when its connection breaks; every log when `signal` aborts.
 */
export async function* readPodLog(
  kube: Kube,
  pod: { namespace: string; name: string },
  query: PodLogQuery,
  signal?: AbortSignal,
): AsyncGenerator<string> {
  const { since, ...rest } = query;
  const path = `/api/v1/namespaces/${pod.namespace}/pods/${pod.name}/log`;
  const url = new URL(`${kube.config.getCurrentCluster()?.server}${path}`);
  const given = Object.entries({ ...rest, timestamps: true, sinceTime: since?.toISOString() });
  for (const [name, value] of given) if (value !== undefined) url.searchParams.set(name, String(value));
  const options: RequestOptions = { signal, timeout: kube.requestMs };
  await kube.config.applyToHTTPSOptions(options);
  try {
    const call = (url.protocol === "http:" ? plain : secure)(url, options).end();
    call.on("timeout", () => call.destroy(new Error(`The API was silent while it was asked for ${path}`)));
    const [response] = (await once(call, "response")) as [IncomingMessage];
    // The pod is not scheduled yet.
    if (response.statusCode === 204) return void response.resume();
    if (response.statusCode !== 200)
      throw new ApiException(response.statusCode ?? 0, "The log cannot be read", await text(response), {});
    if (query.follow) call.setTimeout(QUIET_MS);
    for (const one of [call, response]) one.on("error", () => {});
    try {
      yield* createInterface({ input: response, crlfDelay: Number.POSITIVE_INFINITY });
    } catch (error) {
      if (!query.follow) throw error;
    } finally {
      response.destroy();
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}
