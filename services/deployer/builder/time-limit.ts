import { BuildFailure, type BuildRequest } from "./port.ts";

/** Adds the time limit, and an end to the build when its log cannot be written. */
export async function withTimeLimit<T>(
  request: Pick<BuildRequest, "timeoutMs" | "log">,
  signal: AbortSignal,
  work: (signal: AbortSignal, log: (line: string) => void) => Promise<T>,
): Promise<T> {
  const broken = new AbortController();
  const timeout = setTimeout(() => {
    const time =
      request.timeoutMs < 60_000
        ? `${request.timeoutMs / 1000} s`
        : `${Math.round(request.timeoutMs / 60_000)} minutes`;
    broken.abort(new BuildFailure("build", "build_timeout", `The build took longer than ${time}.`));
  }, request.timeoutMs);
  const log = (line: string) => {
    try {
      request.log(line);
    } catch (error) {
      broken.abort(error);
    }
  };
  try {
    return await work(AbortSignal.any([signal, broken.signal]), log);
  } finally {
    clearTimeout(timeout);
  }
}

/** What a full disk throws, as what it is for users. */
export function toBuildFailure(error: unknown): unknown {
  if ((error as NodeJS.ErrnoException).code !== "ENOSPC") return error;
  return diskFull();
}

/** The disk is full. */
export function diskFull(): BuildFailure {
  return new BuildFailure("build", "disk_full", "There is no room left on the disk to build.");
}
