import { isStatus, type Kube } from "../../../kube/client.ts";
import { type PodLogQuery, readPodLog } from "../../../kube/pods/pod-log.ts";
import type { LogStream } from "../../port.ts";
import { type Line, numberLines, parseLine, shortName } from "./log-lines.ts";
import type { LogSource } from "./log-source.ts";

/** A pod whose log is read. A server of an addon is replaced by one of the same name, with another `uid`. */
export type LoggedPod = { source: LogSource; name: string; uid: string; version: number; restarts: number };

export type LogReader = ReturnType<typeof createLogReader>;

type Part = Omit<PodLogQuery, "container" | "stream">;

/** Reads the output of pods as far as the cluster keeps it. */
export function createLogReader(kube: Kube) {
  let split: Promise<boolean> | undefined;

  function readRaw(
    { source: { namespace, container }, name }: LoggedPod,
    part: Part,
    stream?: LogStream,
    signal?: AbortSignal,
  ): AsyncGenerator<string> {
    const query: PodLogQuery = { ...part, container };
    if (stream) query.stream = stream === "stderr" ? "Stderr" : "Stdout";
    return readPodLog(kube, { namespace, name }, query, signal);
  }

  /**
   * Returns whether the cluster keeps stdout and stderr apart: a feature gate of Kubernetes, off by default. Where it is
   * off, all lines count as stdout.
   */
  function splitsStreams(pod: LoggedPod): Promise<boolean> {
    split ??= collect(readRaw(pod, { since: new Date() }, "stderr")).then(
      () => true,
      (error) => {
        if (isStatus(error, 422)) return false;
        split = undefined; // a pod that does not exist yet says nothing
        return !isStatus(error, 400, 404) && Promise.reject(error);
      },
    );
    return split;
  }

  /**
   * Yields lines of a pod's container, oldest first; of both streams unless one is given. What is written as one line may be
   * shown as several, or not at all: they come together.
   */
  async function* written(
    pod: LoggedPod,
    part: Part,
    stream?: LogStream,
    signal?: AbortSignal,
  ): AsyncGenerator<Line[]> {
    const { version, source } = pod;
    const number = numberLines(shortName(pod.name));
    const show = source.format?.show ?? ((message: string) => [message]);
    try {
      for await (const raw of readRaw(pod, part, stream, signal)) {
        const { time = "", message } = parseLine(raw) ?? {};
        const messages = message === undefined ? [] : show(message);
        yield messages.map((one) => ({
          ...{ ...number(time), message: one, stream: stream ?? "stdout", version },
        }));
      }
    } catch (error) {
      // Nothing was written yet, the previous container is forgotten, or the pod is gone.
      if (!isStatus(error, 400, 404)) throw error;
    }
  }

  async function* lines(...query: Parameters<typeof written>): AsyncGenerator<Line> {
    for await (const some of written(...query)) yield* some;
  }

  /**
   * Returns the newest lines of a pod's container, oldest first, with their streams where the cluster knows them, and whether
   * these are all.
   */
  async function newest(pod: LoggedPod, part: Part & { tailLines: number }) {
    const read = await collect(written(pod, part));
    const found = read.flat();
    const all = read.length < part.tailLines;
    const first = found[0];
    if (!first || !(await splitsStreams(pod))) return { found, all };
    const errors = new Set<string>();
    const since = new Date(`${first.time.slice(0, 19)}Z`);
    for await (const { time, message } of lines(pod, { previous: part.previous, since }, "stderr"))
      errors.add(`${time} ${message}`);
    const withStreams = found.map((line) =>
      errors.has(`${line.time} ${line.message}`) ? { ...line, stream: "stderr" as const } : line,
    );
    return { found: withStreams, all };
  }

  return { splitsStreams, lines, newest };
}

async function collect<T>(from: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of from) all.push(one);
  return all;
}
