import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Running } from "../../kit/process/process.ts";
import { causeOf } from "../../kit/rpc/errors.ts";
import type { Sync } from "../subscription/sync.ts";
import { markProcessed, takeCustomers, timeOf } from "./sql.ts";

const PAUSE_MS = 1_000;
const BATCH = 50;

/**
 * Processes the webhooks that are stored, in any number of replicas: what the provider says now of each customer is
 * read and recorded, so that their order, doubles and replays do not matter. `wake` begins at once.
 */
export function startInbox({
  pool,
  sync,
  log,
}: {
  pool: Pool;
  sync: Sync;
  log: Logger;
}): Running & { wake: () => void } {
  const stopping = new AbortController();
  let woken = new AbortController();

  async function process(customerId: string): Promise<void> {
    try {
      const at = await timeOf(pool);
      await sync(customerId);
      await markProcessed(pool, customerId, at);
    } catch (error) {
      log.warn({ customer: customerId, cause: causeOf(error) }, "what the payment provider reported waits");
    }
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const wake = AbortSignal.any([stopping.signal, woken.signal]);
      const customers = await takeCustomers(pool, BATCH).catch((error) => {
        log.warn({ cause: causeOf(error) }, "the inbox cannot be read");
        return [];
      });
      for (const customerId of customers) if (!stopping.signal.aborted) await process(customerId);
      if (customers.length === 0)
        await delay(PAUSE_MS, undefined, { signal: wake, ref: false }).catch(() => {});
      if (woken.signal.aborted) woken = new AbortController();
    }
  }

  const running = run();
  return {
    wake: () => woken.abort(),
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}
