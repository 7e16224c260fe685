import type { Logger } from "../../kit/log.ts";
import { keepSession } from "../../kit/postgres/session.ts";
import { FOLLOW_CHANNEL } from "./streams-sql.ts";

/** How late a follower looks when a notification was missed. */
const FALLBACK_MS = 1_000;

/** Rings when something changed under its key. */
export type Bell = {
  /** Resolves when it rang since the last call, after a second without, or when the signal aborts. */
  next: (signal: AbortSignal) => Promise<void>;
  close: () => void;
};

export type Changes = Awaited<ReturnType<typeof listenForChanges>>;

/**
 * Hears what any process of the deployer changes, over one connection for all followers of this process.
 * It connects again by itself; meanwhile followers look once a second.
 */
export async function listenForChanges(options: { url: string; log: Logger; fallbackMs?: number }) {
  const { url, log, fallbackMs = FALLBACK_MS } = options;
  const bells = new Map<string, Set<() => void>>();

  const ring = (key: string) => {
    for (const wake of bells.get(key) ?? []) wake();
  };

  const kept = await keepSession({
    url,
    name: "deployer-followers",
    async prepare(session) {
      session.on("notification", ({ payload }) => ring(payload ?? ""));
      const { rows } = await session.query<{ channel: string }>(`select ${FOLLOW_CHANNEL} as channel`);
      await session.query(`listen "${rows[0]!.channel}"`);
      for (const key of bells.keys()) ring(key);
    },
    failed(error, failures) {
      if (failures === 1) log.warn({ err: error }, "changes can not be heard; followers look by the clock");
    },
  });
  return {
    bell(key: string): Bell {
      let rung = false;
      let resume = () => {};
      const wake = () => {
        rung = true;
        resume();
      };
      const under = bells.get(key) ?? new Set();
      bells.set(key, under.add(wake));
      return {
        async next(signal) {
          if (!rung && !signal.aborted)
            await new Promise<void>((resolve) => {
              const timer = setTimeout(done, fallbackMs);
              signal.addEventListener("abort", done);
              resume = done;
              function done() {
                clearTimeout(timer);
                signal.removeEventListener("abort", done);
                resolve();
              }
            });
          rung = false;
        },
        close() {
          under.delete(wake);
          if (under.size === 0 && bells.get(key) === under) bells.delete(key);
        },
      };
    },
    stop: kept.stop,
  };
}
