import { isPoolBusy } from "../../kit/failures.ts";
import { execute, type Pool } from "../../kit/postgres/db.ts";
import { type Provider, unavailable } from "../stripe/provider.ts";

/** Runs work for an account while no other work for it runs, in any replica. */
export type AccountLock = <T>(accountId: string, work: () => Promise<T>) => Promise<T>;

const LOCK = "select pg_advisory_lock(hashtext('billing:account'), hashtext($1))";
const UNLOCK = "select pg_advisory_unlock(hashtext('billing:account'), hashtext($1))";

/**
 * Returns a lock of accounts: an advisory lock of a session, because requests to the payment provider are no part of a
 * transaction. It ends with the session, so with the process. `pool` must be used for nothing else, as work under the
 * lock takes connections from the service's own. Waiting ends by the timeouts of the pool: with 502
 * payment_provider_unavailable while the provider hangs, for which all others wait, and else with 503.
 */
export function createAccountLock(pool: Pool, provider?: Pick<Provider, "hangs">): AccountLock {
  const tooLate = (error: unknown) => {
    throw isWaitOver(error) && provider?.hangs() ? unavailable() : error;
  };
  return async (accountId, work) => {
    const session = await pool.connect().catch(tooLate);
    let broken: Error | undefined;
    try {
      await execute(session, "account_lock", LOCK, [accountId]).catch(tooLate);
      return await work();
    } finally {
      await execute(session, "account_unlock", UNLOCK, [accountId]).catch((error) => {
        broken = error;
      });
      session.release(broken);
    }
  };
}

/** Of PostgreSQL: another session has the lock. */
const LOCK_NOT_AVAILABLE = "55P03";

const isWaitOver = (error: unknown) =>
  isPoolBusy(error) || (error as { code?: unknown } | null)?.code === LOCK_NOT_AVAILABLE;
