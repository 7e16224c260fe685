import { type Loop, startLoop } from "./loop.ts";
import { reportTask } from "./metrics.ts";

/** Background work of a process. What it is does not depend on a process that does it: docs list it. */
export type Task = {
  /** Unique in its process. */
  name: string;
  /** What it does, as a sentence. */
  does: string;
  /** The pause after a run. */
  everyMs: number;
  /** The pause after a run that failed, unless it is the same. */
  retryMs?: number;
  /** Whether the first run comes before the first pause. */
  atOnce?: boolean;
  /** Which processes do it, where that is not each of its service's. */
  where?: string;
};

/** Declares background work. */
export function defineTask(task: Task): Task {
  return task;
}

/** When a run follows before the period is over: there is `more` to do, or something is due in `inMs`. */
export type Next = "more" | { inMs: number } | undefined;
type Run = ((signal: AbortSignal) => Promise<void>) | ((signal: AbortSignal) => Promise<Next>);

type TaskOptions = {
  log: { warn(object: object, message: string): void };
  /** Which one it is, where a process does a task for several things. */
  of?: string;
  /** What of an error is logged. All by default; what may hold secrets or data of users is to be left out. */
  toLog?: (error: unknown) => object;
};

/** Failures that follow each other are logged once in this time. */
const LOG_AGAIN_MS = 60_000;

/**
 * Does a task until it is stopped: a run, a pause, and so on. `run` ends soon, between two batches, once its signal
 * aborts. One that throws is counted and logged, and followed by the next.
 */
export function startTask(task: Task, run: Run, { log, of, toLog = withStack }: TaskOptions): Loop {
  const { name, does, everyMs, retryMs = everyMs } = task;
  const report = reportTask(task, of);
  let failures = 0;
  let loggedAt = 0;

  function failed(error: unknown): void {
    failures++;
    if (failures > 1 && Date.now() - loggedAt < LOG_AGAIN_MS) return;
    loggedAt = Date.now();
    log.warn({ task: name, of, does, failures, ...toLog(error) }, "a task failed and will be repeated");
  }

  async function runOnce(signal: AbortSignal): Promise<number> {
    const beganAt = performance.now();
    try {
      const next = (await run(signal)) || undefined;
      report.ended("done", performance.now() - beganAt);
      failures = 0;
      return next === "more" ? 0 : Math.min(next?.inMs ?? everyMs, everyMs);
    } catch (error) {
      // What a stop interrupts is no failure: another process does it.
      if (signal.aborted) return 0;
      report.ended("failed", performance.now() - beganAt);
      failed(error);
      return retryMs;
    }
  }

  const loop = startLoop(runOnce, task.atOnce ? 0 : everyMs);
  return {
    wake: loop.wake,
    stop: async () => {
      await loop.stop();
      report.stopped();
    },
  };
}

function withStack(error: unknown): object {
  return { err: error };
}
