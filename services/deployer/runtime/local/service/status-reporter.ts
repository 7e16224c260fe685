import { isDeepStrictEqual } from "node:util";
import type { RuntimeStatus } from "../../port.ts";

/**
 * Emits the status of a service whenever it differs from the last one emitted. `msUntilDeadline` returns the time left
 * for the rollout, undefined once there is none: when it has passed, the status is checked again.
 */
export function createStatusReporter(
  status: () => RuntimeStatus,
  msUntilDeadline: () => number | undefined,
  emit: (status: RuntimeStatus) => void,
) {
  let last: RuntimeStatus | undefined;
  let timer: NodeJS.Timeout | undefined;

  function report(): void {
    const now = status();
    clearTimeout(timer);
    const left = msUntilDeadline();
    if (left !== undefined) timer = setTimeout(report, left + 1).unref();
    if (isDeepStrictEqual(now, last)) return;
    last = now;
    emit(now);
  }

  return { report, close: () => clearTimeout(timer) };
}
