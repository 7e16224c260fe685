import { setTimeout as delay } from "node:timers/promises";
import type { LogStream } from "../../port.ts";
import { compare, type Line, type Position } from "./log-lines.ts";
import type { LoggedPod, LogReader } from "./log-read.ts";

/** Lines of several replicas are put in order of time if they arrive within this time of each other. */
const HOLD_MS = 150;
const LOOK_MS = 250;
/** More lines than this wait for a slow reader in the cluster. */
const AHEAD = 5_000;

type Followed = { line: Line; cursor: Position };

/**
 * Every line after `from` of the pods that `podsNow` gives, and of those that come later; ends when it gives
 * none at all or the signal aborts. `cursor` never goes back, also where a line arrives late.
 */
export async function* followLines(
  reader: LogReader,
  podsNow: () => LoggedPod[] | undefined,
  from: Position,
  signal: AbortSignal,
): AsyncGenerator<Followed> {
  const ending = new AbortController();
  const end = () => ending.abort();
  signal.addEventListener("abort", end);
  if (signal.aborted) end();
  const waiting: { line: Line; at: number }[] = [];
  const tailed = new Map<string, Promise<void>>();
  let failure: unknown;
  const tail = async (pod: LoggedPod) => {
    const streams: (LogStream | undefined)[] = (await reader.splits(pod))
      ? ["stdout", "stderr"]
      : [undefined];
    const still = () => podsNow()?.find((one) => one.name === pod.name);
    await Promise.all(
      streams.map((stream) => tailPod(reader, still, { stream, from, waiting }, ending.signal)),
    );
  };
  let cursor = from;
  try {
    while (!ending.signal.aborted) {
      const pods = podsNow();
      if (failure) throw failure;
      for (const pod of pods ?? [])
        if (!tailed.has(pod.name))
          tailed.set(
            pod.name,
            tail(pod).catch((error) => {
              failure = error;
            }),
          );
      for (const line of take(waiting, pods ? HOLD_MS : 0)) {
        if (ending.signal.aborted) return;
        if (compare(line, cursor) > 0) cursor = { time: line.time, pod: line.pod, nth: line.nth };
        yield { line, cursor };
      }
      if (!pods) return;
      await delay(waiting.length > 0 ? HOLD_MS / 3 : LOOK_MS / 2, undefined, { signal: ending.signal }).catch(
        () => {},
      );
    }
  } finally {
    end();
    signal.removeEventListener("abort", end);
    await Promise.all(tailed.values());
  }
}

/** Lines that have waited long enough, and those that stand before them; in order. */
function take(waiting: { line: Line; at: number }[], holdMs: number): Line[] {
  const until = Date.now() - holdMs;
  waiting.sort((one, other) => compare(one.line, other.line));
  const last = waiting.findLastIndex(({ at }) => at <= until);
  return waiting.splice(0, last + 1).map(({ line }) => line);
}

/** Puts the lines of one pod after `from` into `waiting`, until the pod is gone. */
async function tailPod(
  reader: LogReader,
  still: () => LoggedPod | undefined,
  { stream, from, waiting }: { stream?: LogStream; from: Position; waiting: { line: Line; at: number }[] },
  signal: AbortSignal,
): Promise<void> {
  let last = from;
  let restarts = -1;
  const read = async (pod: LoggedPod, previous: boolean) => {
    const since = last.time ? new Date(`${last.time.slice(0, 19)}Z`) : undefined;
    const part = previous ? { previous, since } : { follow: true, since };
    for await (const line of reader.lines(pod, part, stream, signal)) {
      if (compare(line, last) <= 0) continue;
      last = line;
      waiting.push({ line, at: Date.now() });
      while (waiting.length > AHEAD && !signal.aborted) await delay(LOOK_MS);
    }
  };
  for (let pod = still(); pod && !signal.aborted; pod = still()) {
    // What an instance said at its end, while nobody listened.
    if (pod.restarts > 0 && pod.restarts !== restarts) await read(pod, true);
    restarts = pod.restarts;
    await read(pod, false);
    await delay(LOOK_MS, undefined, { signal }).catch(() => {});
  }
}
