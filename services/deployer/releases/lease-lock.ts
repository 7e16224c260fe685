import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { type LeasedService, lockWhileLeased } from "./sql.ts";

/**
 * Runs `work` in a transaction during which the service cannot change and this process holds its lease.
 * Returns `false`, without running it, when another process holds the lease or the service is being deleted.
 */
export function whileLeased(
  { pool, owner }: { pool: Pool; owner: number },
  serviceId: string,
  work: (tx: Tx, service: LeasedService) => Promise<boolean>,
): Promise<boolean> {
  return transaction(pool, async (tx) => {
    const service = await lockWhileLeased(tx, owner, serviceId);
    return service ? work(tx, service) : false;
  });
}
