import { Unreachable } from "./errors.ts";

/** Returns a signal that aborts when either does. */
export const anyOf = (signal: AbortSignal | undefined, other: AbortSignal): AbortSignal =>
  signal ? AbortSignal.any([signal, other]) : other;

/** Returns a signal that aborts when nothing was heard for so long. */
export function silenceAfter(ms: number) {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout>;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(new Unreachable(`Nothing was heard for ${ms / 1_000} s.`)), ms);
  };
  heard();
  return { signal: controller.signal, heard, end: () => clearTimeout(timer) };
}

/** Waits. Throws the reason of the signal when it aborts. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
