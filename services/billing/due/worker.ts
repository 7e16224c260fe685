import { causeOf } from "../../kit/failures.ts";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Loop } from "../../kit/tasks/loop.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import { READ_CUSTOMERS, RENEW_LEASES } from "../tasks.ts";
import { customerReads, watchLag } from "./metrics.ts";
import { type Due, type DueKind, finishDue, markPayments, renewDue, retryDue, takeDue } from "./sql.ts";

/** How many customers are read at once, so that one for whom the provider does not answer delays no others. */
const AT_ONCE = 4;
/** How long no other replica takes a customer after this one has died: leases of what is being read are renewed. */
const LEASE_SECONDS = 15;
/** A customer that takes longer than all requests for one may take is left to other replicas. */
const STUCK_MS = 300_000;
/** In this order they are taken: payments are few. */
const KINDS: DueKind[] = ["payment", "customer"];
const FIRST_RETRY_SECONDS = 5;
const MAX_RETRY_SECONDS = 300;

/** What became of a reading: `passed_over` of what is not this installation's. */
// biome-ignore lint/suspicious/noConfusingVoidType: nothing is returned of a reading as any other.
export type ReadOutcome = "passed_over" | void;
type Read = (id: string) => Promise<ReadOutcome>;

type Deps = { pool: Pool; sync: Read; syncPayment: Read; log: Logger };

/** Returns after how many seconds a customer is read again that could not be read so many times. */
export function retrySeconds(attempts: number): number {
  return Math.min(FIRST_RETRY_SECONDS * 2 ** (attempts - 1), MAX_RETRY_SECONDS);
}

/**
 * Reads the customers that are due, and those of payments, in any number of replicas: what the provider says of them now
 * is recorded, so that the order of webhooks, duplicates and replays do not matter. `wake` begins at once.
 */
export function startCustomerReads({ pool, sync, syncPayment, log }: Deps): Loop {
  watchLag(pool);
  const underWay = new Map<Promise<void>, { due: Due; since: number }>();

  async function read(due: Due): Promise<void> {
    const { kind, id, attempts } = due;
    try {
      const outcome = await readOne(kind, id);
      await finishDue(pool, due);
      customerReads.inc({ outcome: outcome ?? "done" });
    } catch (error) {
      customerReads.inc({ outcome: "failed" });
      log.warn(
        { [`${kind}Id`]: id, attempts, cause: causeOf(error) },
        `a ${kind} could not be read and is tried again`,
      );
      await retryDue(pool, due, retrySeconds(attempts));
    }
  }

  async function readOne(kind: DueKind, id: string): Promise<ReadOutcome> {
    if (kind === "payment") return syncPayment(id);
    if (!id.startsWith("pi_")) return sync(id);
    // The version before migration 9 marks payments as customers. Remove this with the next contract.
    await markPayments(pool, [id]);
  }

  /** Takes as many payments and customers as may be read besides those that are. */
  async function takeSome(): Promise<Next> {
    const limit = AT_ONCE - underWay.size;
    const taken: Due[] = [];
    for (const kind of KINDS)
      if (taken.length < limit)
        taken.push(...(await takeDue(pool, kind, limit - taken.length, LEASE_SECONDS)));
    for (const due of taken) {
      const work: Promise<void> = read(due)
        // Its lease ends, and then it is taken again.
        .catch((error) => log.warn({ err: error }, "what became of a customer could not be recorded"))
        .finally(() => {
          underWay.delete(work);
          task.wake();
        });
      underWay.set(work, { due, since: Date.now() });
    }
    return limit > 0 && taken.length === limit ? "more" : undefined;
  }

  async function renew(): Promise<void> {
    const leased = [...underWay.values()].flatMap(({ due, since }) =>
      Date.now() - since < STUCK_MS ? due : [],
    );
    for (const kind of KINDS) {
      const due = leased.filter((each) => each.kind === kind);
      if (due.length > 0) await renewDue(pool, kind, due, LEASE_SECONDS);
    }
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
