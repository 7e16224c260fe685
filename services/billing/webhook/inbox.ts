import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { causeOf } from "../../kit/rpc/errors.ts";
import type { Loop } from "../../kit/tasks/loop.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import type { Sync } from "../subscription/sync.ts";
import { READ_CUSTOMERS, RENEW_LEASES } from "../tasks.ts";
import { customerReads, watchLag } from "./metrics.ts";
import { finishCustomer, renewCustomers, retryCustomer, type TakenCustomer, takeCustomers } from "./sql.ts";

/** How many customers are being read at once, so that one at whom the provider hangs holds up no others. */
const AT_ONCE = 4;
/** How long no other replica takes a customer after this one has died: what is being read is leased again and again. */
const LEASE_SECONDS = 15;
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
export function startInbox({ pool, sync, log }: { pool: Pool; sync: Sync; log: Logger }): Loop {
  watchLag(pool);
  const underWay = new Map<Promise<void>, { customer: TakenCustomer; since: number }>();

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

  /** Takes as many customers as may be read besides those that are. */
  async function takeSome(): Promise<Next> {
    const limit = AT_ONCE - underWay.size;
    const taken = limit > 0 ? await takeCustomers(pool, limit, LEASE_SECONDS) : [];
    for (const customer of taken) {
      const work: Promise<void> = read(customer)
        // Its lease ends, and then it is taken again.
        .catch((error) => log.warn({ err: error }, "what became of a customer could not be recorded"))
        .finally(() => {
          underWay.delete(work);
          task.wake();
        });
      underWay.set(work, { customer, since: Date.now() });
    }
    return limit > 0 && taken.length === limit ? "more" : undefined;
  }

  async function renew(): Promise<void> {
    const customers = [...underWay.values()].flatMap(({ customer, since }) =>
      Date.now() - since < STUCK_MS ? customer : [],
    );
    if (customers.length > 0) await renewCustomers(pool, customers, LEASE_SECONDS);
  }

  const task = startTask(READ_CUSTOMERS, takeSome, { log });
  const leases = startTask(RENEW_LEASES, renew, { log });
  return {
    wake: task.wake,
    stop: async () => {
      await task.stop();
      await Promise.all(underWay.keys());
      await leases.stop();
    },
  };
}
