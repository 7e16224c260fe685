import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { findSubscription } from "../subscription/sql.ts";
import { LIVE, SUBSCRIBED } from "../subscription/statuses.ts";
import type { AccountLock } from "./account-lock.ts";
import { findAccount, putAgreement } from "./sql.ts";
import { announceTier } from "./tier.ts";

/** The account pays by a subscription, so an agreement would have it pay twice. */
export class HasSubscription extends Error {
  override name = "HasSubscription";
}

/**
 * Puts an account under an agreement with the operator, on the enterprise plan, or ends that: then it is on the plan
 * that it subscribed to, or on the free one. Returns false when it was so before. Throws HasSubscription.
 */
export function setAgreement(
  { pool, lock }: { pool: Pool; lock: AccountLock },
  accountId: string,
  agreed: boolean,
): Promise<boolean> {
  return lock(accountId, async () => {
    const found = await findSubscription(pool, accountId);
    if (agreed && found && LIVE.includes(found.status))
      throw new HasSubscription(`${accountId} has a subscription. Have it canceled first.`);
    return transaction(pool, async (tx) => {
      const own = found && SUBSCRIBED.includes(found.status) ? found.tier : "free";
      const tier = agreed ? "enterprise" : own;
      const { tier: former } = await findAccount(tx, accountId);
      const revision = await putAgreement(tx, accountId, agreed, tier);
      if (revision === undefined) return false;
      await announceTier(tx, accountId, { tier, former, revision });
      return true;
    });
  });
}
