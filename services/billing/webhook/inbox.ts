import { every } from "../../kit/every.ts";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Running } from "../../kit/process/process.ts";
import { causeOf } from "../../kit/rpc/errors.ts";
import type { Sync } from "../subscription/sync.ts";
import { customerReads, watchLag } from "./metrics.ts";
import { finishCustomer, renewCustomers, retryCustomer, type TakenCustomer, takeCustomers } from "./sql.ts";

const POLL_MS = 1_000;
/** How many customers are being read at once, so that one at whom the provider hangs holds up no others. */
const AT_ONCE = 4;
/** How long no other replica takes a customer after this one has died: what is being read is leased again and again. */
const LEASE_SECONDS = 15;
const RENEW_MS = 5_000;
/** A customer that takes longer than all requests for one may take is left to other replicas. */
const STUCK_MS = 300_000;
const FIRST_RETRY_SECONDS = 5;
const MAX_RETRY_SECONDS = 300;

/** Returns after how many seconds a customer is read again that could not be read so many times. */
export function retrySeconds(attempts: number): number {
  return Math.min(FIRST_RETRY_SECONDS * 2 ** (attempts - 1), MAX_RETRY_SECONDS);
}

/**
 * Reads the customers anew that are due, in any number of replicas: what the provider says of them now is recorded, so
 * that the order of webhooks, doubles and replays do not matter. `wake` begins at once.
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
  watchLag(pool);
  const underWay = new Map<Promise<void>, { customer: TakenCustomer; since: number }>();
  let stopped = false;
  let wake = () => {};

  async function read(customer: TakenCustomer): Promise<void> {
    const { customerId, attempts } = customer;
    try {
      await sync(customerId);
      await finishCustomer(pool, customer);
      customerReads.inc({ outcome: "done" });
    } catch (error) {
      customerReads.inc({ outcome: "failed" });
      log.warn(
        { customerId, attempts, cause: causeOf(error) },
        "a customer could not be read and is tried again",
      );
      await retryCustomer(pool, customer, retrySeconds(attempts));
    }
  }

  /** Takes as many customers as may be read besides those that are. Returns whether more may be due. */
  async function takeSome(): Promise<boolean> {
    const limit = AT_ONCE - underWay.size;
    const taken = limit > 0 ? await takeCustomers(pool, limit, LEASE_SECONDS) : [];
    for (const customer of taken) {
      const work: Promise<void> = read(customer)
        // Its lease ends, and then it is taken again.
        .catch((error) => log.warn({ err: error }, "what became of a customer could not be recorded"))
        .finally(() => {
          underWay.delete(work);
          wake();
        });
      underWay.set(work, { customer, since: Date.now() });
    }
    return limit > 0 && taken.length === limit;
  }

  async function run(): Promise<void> {
    while (!stopped) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const more = await takeSome().catch((error) => {
        log.warn({ err: error }, "customers that are due could not be read");
        return false;
      });
      if (!more && !stopped) await within(POLL_MS, woken);
    }
    await Promise.all(underWay.keys());
  }

  async function renew(): Promise<void> {
    const customers = [...underWay.values()].flatMap(({ customer, since }) =>
      Date.now() - since < STUCK_MS ? customer : [],
    );
    if (customers.length > 0) await renewCustomers(pool, customers, LEASE_SECONDS);
  }

  const leases = every(RENEW_MS, renew, {
    failed: (error) => log.warn({ err: error }, "customers that are being read could not be leased again"),
  });
  const running = run();
  return {
    wake: () => wake(),
    stop: async () => {
      stopped = true;
      wake();
      await running;
      await leases.stop();
    },
  };
}

/** Waits until something happens, but no longer than this. */
async function within(ms: number, happened: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([happened, late]);
  clearTimeout(timer);
}
