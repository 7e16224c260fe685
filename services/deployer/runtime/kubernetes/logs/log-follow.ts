import { setTimeout as delay } from "node:timers/promises";
import type { LogStream } from "../../port.ts";
import { compare, type Line, type Position } from "./log-lines.ts";
import type { LoggedPod, LogReader } from "./log-read.ts";

/** Lines of several replicas are sorted by time if they arrive within this time of each other. */
const HOLD_MS = 150;
const POLL_MS = 250;
/** How many lines are read ahead of a slow reader. */
const MAX_WAITING = 5_000;

type Waiting = { line: Line; at: number };

/**
 * Yields every line after `from` of the pods that `podsNow` returns, later ones included; ends when it returns undefined
 * or the signal aborts. `cursor` never goes back, even where a line arrives late.
 */
export async function* followLines(
  reader: LogReader,
  podsNow: () => LoggedPod[] | undefined,
  from: Position,
  signal: AbortSignal,
): AsyncGenerator<{ line: Line; cursor: Position }> {
  const ending = new AbortController();
  const end = () => ending.abort();
  signal.addEventListener("abort", end);
  if (signal.aborted) end();
  const waiting: Waiting[] = [];
  const tailed = new Map<string, Promise<void>>();
  let failure: unknown;
  const tail = async (pod: LoggedPod) => {
    const streams: (LogStream | undefined)[] = (await reader.splitsStreams(pod))
      ? ["stdout", "stderr"]
      : [undefined];
    const current = () => podsNow()?.find((one) => one.uid === pod.uid);
    await Promise.all(
      streams.map((stream) => tailPod(reader, current, { stream, from, waiting }, ending.signal)),
    );
  };
  let cursor = from;
  try {
    while (!ending.signal.aborted) {
      const pods = podsNow();
      if (failure) throw failure;
      for (const pod of pods ?? [])
        if (!tailed.has(pod.uid))
          tailed.set(
            pod.uid,
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
      const pause = waiting.length > 0 ? HOLD_MS / 3 : POLL_MS / 2;
      await delay(pause, undefined, { signal: ending.signal }).catch(() => {});
    }
  } finally {
    end();
    signal.removeEventListener("abort", end);
    await Promise.all(tailed.values());
  }
}

/** Removes and returns the lines that have waited long enough, and those that precede them; in order. */
function take(waiting: Waiting[], holdMs: number): Line[] {
  const until = Date.now() - holdMs;
  waiting.sort((one, other) => compare(one.line, other.line));
  const last = waiting.findLastIndex(({ at }) => at <= until);
  return waiting.splice(0, last + 1).map(({ line }) => line);
}

/** Adds the lines of one pod after `from` to `waiting`, until `current` no longer returns the pod. */
async function tailPod(
  reader: LogReader,
  current: () => LoggedPod | undefined,
  { stream, from, waiting }: { stream?: LogStream; from: Position; waiting: Waiting[] },
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
      while (waiting.length > MAX_WAITING && !signal.aborted) await delay(POLL_MS);
    }
  };
  for (let pod = current(); pod && !signal.aborted; pod = current()) {
    // The last lines of the previous container, which were written between two reads.
    if (pod.restarts > 0 && pod.restarts !== restarts) await read(pod, true);
    restarts = pod.restarts;
    await read(pod, false);
    await delay(POLL_MS, undefined, { signal }).catch(() => {});
  }
}
