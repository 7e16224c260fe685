import { setTimeout as delay } from "node:timers/promises";
import type { Exit } from "./child.ts";
import type { Running } from "./running.ts";

/** How a process is started. `signal` aborts when the start under way is no longer wanted. */
export type Part<R extends Running> = {
  name: string;
  start(signal: AbortSignal): Promise<R>;
};

export type Supervised<R extends Running> = {
  name: string;
  /** The first start's outcome. */
  ready: Promise<R>;
  stop(): Promise<void>;
  kill(): void;
};

const MAX_BACKOFF_S = 8;
/** A process that ran this long starts over with the shortest backoff. */
const STABLE_MS = 30_000;

/**
 * Starts a part, and restarts it whenever it exits by itself, after a backoff that doubles from 0.25 s to 8 s. The
 * first start is not repeated: its failure rejects `ready`.
 *
 * @param report called with one line for each unexpected exit and each restart.
 */
export function supervise<R extends Running>(part: Part<R>, report: (line: string) => void): Supervised<R> {
  const stopping = new AbortController();
  const { signal } = stopping;
  let running: R | undefined;
  let failures = 0;
  const ready = part.start(signal).then((first) => {
    running = first;
    return first;
  });

  /** Tries until the part runs again; rejects when it is stopped meanwhile. */
  async function restart(exit: Exit): Promise<R> {
    let problem = describeExit(exit);
    for (;;) {
      const seconds = Math.min(0.25 * 2 ** failures++, MAX_BACKOFF_S);
      report(`${part.name} ${problem}; restarting in ${seconds} s`);
      await delay(seconds * 1000, undefined, { signal });
      try {
        return await part.start(signal);
      } catch (error) {
        signal.throwIfAborted();
        problem = `did not start (${(error as Error).message.split("\n")[0]})`;
      }
    }
  }

  async function watch(): Promise<void> {
    for (let current = await ready; !signal.aborted; ) {
      const since = Date.now();
      const exit = await current.exited;
      if (signal.aborted) return;
      running = undefined;
      if (Date.now() - since > STABLE_MS) failures = 0;
      current = await restart(exit);
      running = current;
      report(`${part.name} restarted`);
    }
  }
  const watched = watch().catch(() => {}); // Stopped, or the first start failed, which `ready` says.

  return {
    name: part.name,
    ready,
    stop: async () => {
      stopping.abort();
      await running?.stop();
      await watched;
      await running?.stop(); // A start that was under way may have succeeded.
    },
    kill: () => {
      stopping.abort();
      running?.kill();
    },
  };
}

/** Returns `exited with code 1` or `was killed by SIGKILL`. */
export function describeExit({ code, signal }: Exit): string {
  return signal === null ? `exited with code ${code}` : `was killed by ${signal}`;
}
