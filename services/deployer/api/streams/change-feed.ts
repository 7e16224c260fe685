import type { Logger } from "../../../kit/log.ts";
import { keepSession } from "../../../kit/postgres/session.ts";
import { FOLLOW_CHANNEL } from "./sql.ts";

/** How late a follower learns of a change when a notification was missed. */
const FALLBACK_MS = 1_000;

/** Tells one follower that something changed under its key. */
export type ChangeSignal = {
  /** Resolves when there was a change since the last call, after a second without, or when `signal` aborts. */
  next: (signal: AbortSignal) => Promise<void>;
  close: () => void;
};

export type ChangeFeed = Awaited<ReturnType<typeof startChangeFeed>>;

/**
 * Listens to the changes of every process of the deployer, over one connection for all followers of this process.
 * While the connection is lost, followers look once a second.
 */
export async function startChangeFeed(options: { url: string; log: Logger; fallbackMs?: number }) {
  const { url, log, fallbackMs = FALLBACK_MS } = options;
  const listeners = new Map<string, Set<() => void>>();

  const notify = (key: string) => {
    for (const listener of listeners.get(key) ?? []) listener();
  };

  const session = await keepSession({
    url,
    name: "deployer-followers",
    async prepare(session) {
      session.on("notification", ({ payload }) => notify(payload ?? ""));
      const { rows } = await session.query<{ channel: string }>(`select ${FOLLOW_CHANNEL} as channel`);
      await session.query(`listen "${rows[0]!.channel}"`);
      for (const key of listeners.keys()) notify(key);
    },
    failed(error, failures) {
      if (failures === 1) log.warn({ err: error }, "cannot listen for changes; followers look once a second");
    },
  });
  return {
    /** A signal of the changes under a key, from now on; to be closed. */
    signal(key: string): ChangeSignal {
      let changed = false;
      let resume = () => {};
      const listener = () => {
        changed = true;
        resume();
      };
      const ofKey = listeners.get(key) ?? new Set();
      listeners.set(key, ofKey.add(listener));
      return {
        async next(signal) {
          if (!changed && !signal.aborted)
            await pause(fallbackMs, signal, (end) => {
              resume = end;
            });
          changed = false;
        },
        close() {
          ofKey.delete(listener);
          if (ofKey.size === 0 && listeners.get(key) === ofKey) listeners.delete(key);
        },
      };
    },
    stop: session.stop,
  };
}

/** Resolves after `ms`, when `signal` aborts, or when the function that `expose` was given is called. */
export function pause(ms: number, signal: AbortSignal, expose?: (end: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end, { once: true });
    function end() {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    }
    expose?.(end);
  });
}
