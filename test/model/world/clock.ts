import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers/promises";
import pg from "pg";

type Timer = { at: number; due: () => void };
type Options = { signal?: AbortSignal };

/** The time of one schedule. It moves only by `advance`. */
export class Clock {
  now: number;
  #timers: Timer[] = [];

  constructor(start: number) {
    this.now = start;
  }

  /** Runs `due` after this time; returns what cancels that. */
  after(ms: number, due: () => void): () => void {
    const timer = { at: this.now + Math.max(0, ms), due };
    const at = this.#timers.findIndex((other) => other.at > timer.at);
    this.#timers.splice(at < 0 ? this.#timers.length : at, 0, timer);
    return () => {
      const index = this.#timers.indexOf(timer);
      if (index >= 0) this.#timers.splice(index, 1);
    };
  }

  /** Moves to the next timer and runs it; returns `false` when there is none. */
  advance(): boolean {
    const timer = this.#timers.shift();
    if (!timer) return false;
    this.now = timer.at;
    timer.due();
    return true;
  }
}

let clock = new Clock(0);

/** Sets the clock that the deployer's code reads from now on. */
export function useClock(next: Clock): void {
  clock = next;
}

const realImmediate = setImmediate;
/** Resolves once all code waits for something. */
export const allWait = () => new Promise<void>((resolve) => realImmediate(resolve));

function delay<T>(ms: number, value: T, { signal }: Options = {}): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener("abort", stop);
      resolve(value);
    });
    function stop() {
      cancel();
      reject(signal!.reason);
    }
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** What the deployer's code needs of AbortController, at a tenth of its cost. */
class LightSignal {
  aborted = false;
  reason: unknown;
  readonly #listeners = new Set<() => void>();
  addEventListener(_: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }
  removeEventListener(_: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }
  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }
  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    for (const listener of this.#listeners) listener();
  }
}
const aborted = new Error("aborted");
class LightController {
  readonly signal = new LightSignal();
  abort(reason: unknown = aborted): void {
    this.signal.abort(reason);
  }
}

let drawn = 0;
/** Makes ids and lease owners the same in each run of a schedule. */
export function restartIds(): void {
  drawn = 0;
}

/**
 * Replaces this thread's clock, and its connections to PostgreSQL that stand for a process, by simulated ones. For a
 * worker thread that does nothing else.
 */
export function virtualize(Client: new (options: { connectionString: string }) => unknown): void {
  Date.now = () => clock.now;
  timers.setTimeout = delay as typeof timers.setTimeout;
  globalThis.setTimeout = ((due: () => void, ms = 0) => {
    const timer = { cancel: clock.after(ms, due), unref: () => timer };
    return timer;
  }) as never;
  globalThis.clearTimeout = ((timer?: { cancel: () => void }) => timer?.cancel()) as never;
  crypto.randomBytes = ((size: number) => {
    const bytes = Buffer.alloc(size);
    bytes.writeUInt32BE(++drawn, size - 4);
    return bytes;
  }) as typeof crypto.randomBytes;
  crypto.randomInt = (() => ++drawn) as typeof crypto.randomInt;
  syncBuiltinESMExports();
  globalThis.AbortController = LightController as never;
  // Only build logs ask for it, which are not modelled.
  globalThis.setInterval = (() => 0) as never;
  globalThis.clearInterval = () => {};
  pg.Client = Client as never;
  Error.stackTraceLimit = 0;
}
