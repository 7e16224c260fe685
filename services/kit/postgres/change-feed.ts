import type { Logger } from "../log.ts";
import { keepSession } from "./session.ts";

type Options = {
  url: string;
  /** Names the channel, `<name>:<schema>`, and the session. */
  name: string;
  log: Logger;
  /** How long a follower waits before it reads again without a notification. */
  fallbackMs: number;
};

/** Notifies one follower of changes under its key. */
export type ChangeSignal = {
  /** Resolves once something changed since the last call, after `fallbackMs` without a change, or when `signal` aborts. */
  next: (signal: AbortSignal) => Promise<void>;
  close: () => void;
};

export type ChangeFeed = Awaited<ReturnType<typeof startChangeFeed>>;

/**
 * Listens for changes of which the triggers of a service's schema notify, made by any process, over one connection for
 * all followers of this process. A notification's payload is the key of what changed. While the connection is lost,
 * followers poll.
 */
export async function startChangeFeed({ url, name, log, fallbackMs }: Options) {
  const listeners = new Map<string, Set<() => void>>();
  const watchers = new Set<(key: string | undefined) => void>();

  const notify = (key: string) => {
    for (const listener of listeners.get(key) ?? []) listener();
  };
  const tellWatchers = (key: string | undefined) => {
    for (const watcher of watchers) watcher(key);
  };

  const session = await keepSession({
    url,
    name,
    async prepare(session) {
      session.on("notification", ({ payload = "" }) => {
        notify(payload);
        tellWatchers(payload);
      });
      const { rows } = await session.query<{ schema: string }>("select current_schema() as schema");
      await session.query(`listen "${name}:${rows[0]!.schema}"`);
      for (const key of listeners.keys()) notify(key);
      tellWatchers(undefined);
    },
    failed(error, failures) {
      tellWatchers(undefined);
      if (failures === 1) log.warn({ err: error }, "cannot listen for changes; followers poll");
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
    /**
     * Calls `watcher` with the key of each change, and with undefined when changes may have been missed: after the
     * connection was lost, and now and then while it is. Returns the function that ends it.
     */
    watch(watcher: (key: string | undefined) => void): () => void {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
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
