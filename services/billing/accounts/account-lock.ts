import type { Pool } from "../../kit/postgres/db.ts";
import { execute } from "../../kit/postgres/db.ts";

/** Runs work for an account while no other work for it runs, in any replica. */
export type AccountLock = <T>(accountId: string, work: () => Promise<T>) => Promise<T>;

const LOCK = "select pg_advisory_lock(hashtext('billing:account'), hashtext($1))";
const UNLOCK = "select pg_advisory_unlock(hashtext('billing:account'), hashtext($1))";

/**
 * Returns a lock of accounts: an advisory lock of a session, because requests to the payment provider are no part of a
 * transaction. It ends with the session, so with the process. `pool` must be used for nothing else, as work under the
 * lock takes connections from the service's own. Waiting ends by the pool's lock timeout, with 503.
 */
export function createAccountLock(pool: Pool): AccountLock {
  return async (accountId, work) => {
    const session = await pool.connect();
    let broken: Error | undefined;
    try {
      await execute(session, "account_lock", LOCK, [accountId]);
      return await work();
    } finally {
      await execute(session, "account_unlock", UNLOCK, [accountId]).catch((error) => {
        broken = error;
      });
      session.release(broken);
    }
  };
}
