import { createSemaphore } from "../../kit/concurrency/semaphore.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { type LeasedService, lockWhileLeased } from "./sql.ts";

/** Half of the pool: each waits for the cluster in a transaction, and with all of them requests would find none. */
const AT_ONCE = 8;

const turns = new WeakMap<Pool, ReturnType<typeof createSemaphore>>();

function turnOf(pool: Pool): ReturnType<typeof createSemaphore> {
  const turn = turns.get(pool) ?? createSemaphore(AT_ONCE);
  turns.set(pool, turn);
  return turn;
}

/**
 * Runs `work` in a transaction during which the service cannot change and this process holds its lease.
 * Returns `false`, without running it, when another process holds the lease or the service is being deleted.
 */
export function whileLeased(
  { pool, owner }: { pool: Pool; owner: number },
  serviceId: string,
  work: (tx: Tx, service: LeasedService) => Promise<boolean>,
): Promise<boolean> {
  return turnOf(pool)(() =>
    transaction(pool, async (tx) => {
      const service = await lockWhileLeased(tx, owner, serviceId);
      return service ? work(tx, service) : false;
    }),
  );
}
