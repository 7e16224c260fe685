import { retry } from "../../kit/concurrency/retry.ts";
import { causeOf } from "../../kit/failures.ts";
import type { Logger } from "../../kit/log.ts";
import type { Running } from "../../kit/process/process.ts";
import type { Provider } from "../stripe/provider.ts";
import { KeyRefused, seed } from "./seed.ts";

const RETRY_MS = 60_000;

/**
 * Makes at the payment provider what is missing of what Berth sells, once, in the background: until it is there, nothing
 * can be bought. A key that may not do that is reported once, and left to the command.
 */
export function startSeeding({ provider, log }: { provider: Provider; log: Logger }): Running {
  const stopping = new AbortController();
  const { signal } = stopping;
  async function run(): Promise<void> {
    const made = await retry(() => seed(provider), {
      everyMs: RETRY_MS,
      retryIf: (error) => !(error instanceof KeyRefused),
      failed: (error) =>
        log.warn({ cause: causeOf(error) }, "what is sold is not set up yet at the provider"),
      signal,
    });
    if (made.length > 0) log.info({ made }, "what is sold was set up at the payment provider");
  }
  run().catch((error) => {
    if (!signal.aborted)
      log.error(
        { cause: causeOf(error) },
        "STRIPE_SECRET_KEY may not set up what is sold: run npm run stripe:seed once with a key that may",
      );
  });
  return {
    // What is under way may be left: it is made of what is done again.
    stop: async () => stopping.abort(),
  };
}
