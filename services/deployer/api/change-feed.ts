import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import type { Logger } from "../../kit/log.ts";
import { sessionOpener } from "../../kit/postgres/session.ts";
import { FOLLOW_CHANNEL } from "./streams-sql.ts";

const RETRY_MS = 500;
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
  let stopped = false;
  const open = sessionOpener(url, "deployer-followers");
  let client: pg.Client | undefined;

  const ring = (key: string) => {
    for (const wake of bells.get(key) ?? []) wake();
  };

  async function connect(): Promise<void> {
    const next = await open();
    next.on("notification", ({ payload }) => ring(payload ?? ""));
    try {
      const { rows } = await next.query<{ channel: string }>(`select ${FOLLOW_CHANNEL} as channel`);
      await next.query(`listen "${rows[0]!.channel}"`);
    } catch (error) {
      await next.end().catch(() => {});
      throw error;
    }
    client = next.once("end", () => void again());
    if (stopped) await next.end();
    for (const key of bells.keys()) ring(key);
  }

  async function again(): Promise<void> {
    for (let warned = false; !stopped; warned = true) {
      try {
        return await connect();
      } catch (error) {
        if (!warned) log.warn({ err: error }, "changes can not be heard; followers look by the clock");
        await delay(RETRY_MS, undefined, { ref: false });
      }
    }
  }

  await connect();
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
    stop: async () => {
      stopped = true;
      await client?.end().catch(() => {});
    },
  };
}
