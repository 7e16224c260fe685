import { Refusal, reasonOf, Unreachable } from "./errors.ts";

/** How often a request is tried again by default. */
export const RETRIES = 3;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 60_000;

/** What no try mends: what code of the caller threw, and an answer that will be the same. */
const finals = new WeakSet<object>();
export const isFinal = (error: unknown): boolean =>
  typeof error === "object" && error !== null && finals.has(error);

/** Returns an error, after which nothing is tried again. */
export function final<E extends object>(error: E): E {
  finals.add(error);
  return error;
}

/** Does what the caller handed over: what it throws is thrown on, and nothing is tried again. */
export async function ofCaller<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (typeof error === "object" && error !== null) final(error);
    throw error;
  }
}

/** Whether a refusal passes by itself. */
export const isTransient = (error: unknown): boolean =>
  error instanceof Refusal && (error.status === 429 || error.code === "unavailable");

/** Whether the request before, which has the same key, is still being answered. */
export const isUnderWay = (error: unknown): boolean =>
  error instanceof Refusal && error.status === 409 && error.code === "conflict";

/** Returns the pause before the next try, in ms: what the server asks for, else longer each time, and never in step. */
export function pauseAfter(attempt: number, error: unknown): number {
  const asked = error instanceof Refusal ? error.retryAfter : undefined;
  const ms = asked !== undefined ? asked * 1_000 : FIRST_PAUSE_MS * 2 ** attempt;
  return Math.min(MAX_PAUSE_MS, ms * (1 + Math.random() / 4));
}

/** Returns what to throw when no answer arrived, within `timeoutMs` if that is why. */
export function unreachableFor(cause: unknown, timeoutMs?: number): Unreachable {
  if (cause instanceof Unreachable) return cause;
  const why = timeoutMs === undefined ? reasonOf(cause) : `it did not answer within ${timeoutMs / 1_000} s`;
  return new Unreachable(`The server cannot be reached: ${why}.`, { cause });
}
