import { setTimeout as delay } from "node:timers/promises";
import type { Exit } from "./child.ts";

/** Something that runs: a server, a service. */
export type Running = {
  pid: number;
  exited: Promise<Exit>;
  /** An orderly stop. */
  stop(): Promise<void>;
  /** The end, now. */
  kill(): void;
};

/** How a thing that shall run is started. `signal` tells a start under way that nobody waits any more. */
export type Part<R extends Running> = {
  name: string;
  start(signal: AbortSignal): Promise<R>;
};

export type Kept<R extends Running> = {
  name: string;
  /** The first start's outcome. */
  ready: Promise<R>;
  stop(): Promise<void>;
  kill(): void;
};

/**
 * Start a part and start it again whenever it ends by itself, after a delay that doubles from 0.25 s to 8 s and
 * is forgotten when the part has run for 30 s. The first start is not repeated: its failure is the caller's.
 *
 * @param say told, in one line, of each unexpected end and each return.
 */
export function keepRunning<R extends Running>(part: Part<R>, say: (line: string) => void): Kept<R> {
  const stopping = new AbortController();
  let running: R | undefined;
  const ready = part.start(stopping.signal).then((first) => {
    running = first;
    return first;
  });

  const watch = async () => {
    await ready;
    let failures = 0;
    while (running !== undefined && !stopping.signal.aborted) {
      const since = Date.now();
      const exit = await running.exited;
      if (stopping.signal.aborted) return;
      running = undefined;
      if (Date.now() - since > 30_000) failures = 0;
      let what = describeExit(exit);
      while (running === undefined) {
        const seconds = Math.min(0.25 * 2 ** failures++, 8);
        say(`${part.name} ${what}; it is started again in ${seconds} s`);
        await delay(seconds * 1000, undefined, { signal: stopping.signal });
        try {
          running = await part.start(stopping.signal);
          say(`${part.name} runs again`);
        } catch (error) {
          if (stopping.signal.aborted) return;
          what = `did not start (${(error as Error).message.split("\n")[0]})`;
        }
      }
    }
  };
  const watched = watch().catch(() => {}); // An aborted delay, or the first start's failure: `ready` tells it.

  return {
    name: part.name,
    ready,
    stop: async () => {
      stopping.abort();
      await running?.stop();
      await watched;
      await running?.stop(); // One that came up in the meantime.
    },
    kill: () => {
      stopping.abort();
      running?.kill();
    },
  };
}

/** `ended with code 1`, `was ended by SIGKILL`. */
export function describeExit({ code, signal }: Exit): string {
  return signal === null ? `ended with code ${code}` : `was ended by ${signal}`;
}
