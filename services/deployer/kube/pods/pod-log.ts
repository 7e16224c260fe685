import type { Kube } from "../client.ts";
import { openStream } from "../stream.ts";

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
  const given = { ...rest, timestamps: true, sinceTime: since?.toISOString() };
  try {
    // No lines while the pod is not scheduled yet.
    const lines = await openStream(kube, path, given, { signal, ...(query.follow && { quietMs: QUIET_MS }) });
    try {
      yield* lines;
    } catch (error) {
      if (!query.follow) throw error;
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}
