import type { Logger } from "../../../kit/log.ts";
import { keepSession } from "../../../kit/postgres/session.ts";
import { FOLLOW_CHANNEL } from "./sql.ts";

/** How long a follower waits before it reads again without a notification. */
const FALLBACK_MS = 1_000;

/** Notifies one follower of changes under its key. */
export type ChangeSignal = {
  /** Resolves once something changed since the last call, after a second without a change, or when `signal` aborts. */
  next: (signal: AbortSignal) => Promise<void>;
  close: () => void;
};

export type ChangeFeed = Awaited<ReturnType<typeof startChangeFeed>>;

/**
 * Listens for the changes of all deployer processes, over one connection for all followers of this process. While the
 * connection is lost, followers poll once a second.
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
      if (failures === 1) log.warn({ err: error }, "cannot listen for changes; followers poll once a second");
    },
  });
  return {
    /** Returns a signal of the changes under a key from now on, which has to be closed. */
    signal(key: string): ChangeSignal {
      let changed = false;
      let resume = () => {};
      const listener = () => {
        changed = true;
        resume();
      };
      const keyListeners = listeners.get(key) ?? new Set();
      listeners.set(key, keyListeners.add(listener));
      return {
        async next(signal) {
          if (!changed && !signal.aborted)
            await pause(fallbackMs, signal, (end) => {
              resume = end;
            });
          changed = false;
        },
        close() {
          keyListeners.delete(listener);
          if (keyListeners.size === 0 && listeners.get(key) === keyListeners) listeners.delete(key);
        },
      };
    },
    stop: session.stop,
  };
}

/** Resolves after `ms`, when `signal` aborts, or when the function passed to `expose` is called. */
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
