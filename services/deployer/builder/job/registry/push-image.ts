import { retry } from "../../../../kit/concurrency/retry.ts";

/** What a registry refuses for good. It may also say so once while it starts. */
const REFUSED = /unauthorized|denied|forbidden|x509|too large/i;
const REFUSED_TRIES = 3;

/** How one push ended: the digest of the image, or why the registry did not take it. */
type PushResult = { code: number; digest: string; error: string };

type PushOptions = {
  log: (line: string) => void;
  signal: AbortSignal;
  /** For how long it is tried, in milliseconds: a registry may take no images while it frees what none refers to. */
  forMs?: number;
  /** The pause after a try, in milliseconds. */
  everyMs?: number;
};

/**
 * Returns the digest of the image that `push` pushes, whose output is logged for the first try alone. Throws the last
 * error when the time is over or the registry has refused the image three times, and the signal's reason once it aborts.
 */
export async function pushImage(
  push: (log: (line: string) => void) => Promise<PushResult>,
  { log, signal, forMs = 10 * 60_000, everyMs = 5_000 }: PushOptions,
): Promise<string> {
  let output = log;
  let refusals = 0;
  const attempt = async () => {
    const { code, digest, error } = await push(output);
    if (code === 0) return digest;
    output = () => {};
    if (REFUSED.test(error)) refusals++;
    throw new Error(`the image could not be pushed: ${error}`);
  };
  const failed = (_error: unknown, failures: number) => {
    if (failures === 1) log("The image could not be pushed yet; trying again for up to 10 minutes.");
  };
  const retryIf = () => refusals < REFUSED_TRIES;
  return retry(attempt, { everyMs, forMs, retryIf, failed, signal }).catch((error) => {
    signal.throwIfAborted();
    throw error;
  });
}
