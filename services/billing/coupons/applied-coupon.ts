import type { Tx } from "../../kit/postgres/db.ts";
import type { MirroredSubscription } from "../subscription/mirror-subscription.ts";
import { SUBSCRIBED } from "../subscription/statuses.ts";
import { deleteAppliedCoupon } from "./sql.ts";

/** Deletes the saved promo code of an account if the checkout of this subscription applied it. */
export async function dropAppliedCoupon(tx: Tx, subscription: MirroredSubscription): Promise<void> {
  const { accountId, status, promotionCode, created } = subscription;
  if (promotionCode && SUBSCRIBED.includes(status))
    await deleteAppliedCoupon(tx, accountId, promotionCode, created);
}
