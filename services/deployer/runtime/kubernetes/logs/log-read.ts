import { isStatus, type Kube } from "../../../kube/client.ts";
import { type PodLogQuery, readPodLog } from "../../../kube/pods/pod-log.ts";
import type { LogStream } from "../../port.ts";
import { CONTAINER } from "../app-pods.ts";
import { type Line, numberLines, parseLine, shortName } from "./log-lines.ts";

/** A pod whose log is read. */
export type LoggedPod = { namespace: string; name: string; version: number; restarts: number };

export type LogReader = ReturnType<typeof createLogReader>;

type Part = Omit<PodLogQuery, "container" | "stream">;

/** Reads the output of pods as far as the cluster keeps it. */
export function createLogReader(kube: Kube) {
  let split: Promise<boolean> | undefined;

  /**
   * Returns whether the cluster keeps stdout and stderr apart: a feature gate of Kubernetes, off by default. Where it is
   * off, all lines count as stdout.
   */
  function splitsStreams(pod: LoggedPod): Promise<boolean> {
    split ??= collect(
      readPodLog(kube, pod, { container: CONTAINER, stream: "Stderr", since: new Date() }),
    ).then(
      () => true,
      (error) => {
        if (isStatus(error, 422)) return false;
        split = undefined; // a pod that does not exist yet says nothing
        return !isStatus(error, 400, 404) && Promise.reject(error);
      },
    );
    return split;
  }

  /** Yields lines of a pod's container, oldest first; of both streams unless one is given. */
  async function* lines(
    pod: LoggedPod,
    part: Part,
    stream?: LogStream,
    signal?: AbortSignal,
  ): AsyncGenerator<Line> {
    const query: PodLogQuery = { ...part, container: CONTAINER };
    if (stream) query.stream = stream === "stderr" ? "Stderr" : "Stdout";
    const number = numberLines(shortName(pod.name));
    try {
      for await (const raw of readPodLog(kube, pod, query, signal)) {
        const line = parseLine(raw);
        if (!line) continue;
        const { time, message } = line;
        yield { ...number(time), message, stream: stream ?? "stdout", version: pod.version };
      }
    } catch (error) {
      // Nothing was written yet, the previous container is forgotten, or the pod is gone.
      if (!isStatus(error, 400, 404)) throw error;
    }
  }

  /** Returns the newest lines of a pod's container, oldest first, with their streams where the cluster knows them. */
  async function newest(pod: LoggedPod, part: Part): Promise<Line[]> {
    const found = await collect(lines(pod, part));
    const first = found[0];
    if (!first || !(await splitsStreams(pod))) return found;
    const errors = new Set<string>();
    const since = new Date(`${first.time.slice(0, 19)}Z`);
    for await (const { time, message } of lines(pod, { previous: part.previous, since }, "stderr"))
      errors.add(`${time} ${message}`);
    return found.map((line) =>
      errors.has(`${line.time} ${line.message}`) ? { ...line, stream: "stderr" } : line,
    );
  }

  return { splitsStreams, lines, newest };
}

async function collect<T>(from: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of from) all.push(one);
  return all;
}
