import { BuildFailure } from "./build-failure.ts";
import type { BuildRequest } from "./port.ts";

/**
 * Runs `work` under a signal that also aborts when the request's time is up (with `build_timeout`) and when its log
 * cannot be written (with the log's error). `work` writes to the log that it is given, which does not throw.
 */
export async function withTimeLimit<T>(
  request: Pick<BuildRequest, "timeoutMs" | "log">,
  signal: AbortSignal,
  work: (signal: AbortSignal, log: (line: string) => void) => Promise<T>,
): Promise<T> {
  const own = new AbortController();
  const timeout = setTimeout(() => own.abort(timedOut(request.timeoutMs)), request.timeoutMs);
  const log = (line: string) => {
    try {
      request.log(line);
    } catch (error) {
      own.abort(error);
    }
  };
  try {
    return await work(AbortSignal.any([signal, own.signal]), log);
  } finally {
    clearTimeout(timeout);
  }
}

function timedOut(ms: number): BuildFailure {
  const time = ms < 60_000 ? `${ms / 1000} s` : `${Math.round(ms / 60_000)} minutes`;
  return new BuildFailure("build", "build_timeout", `The build took longer than ${time}.`);
}
