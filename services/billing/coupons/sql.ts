import { type Db, one } from "../../kit/postgres/db.ts";
import type { Coupon } from "../subscription/mirror.ts";

export type PendingCouponRow = { promotionCodeId: string; coupon: Coupon };

/** Returns the promo code that waits for the account's next subscription. */
export function findPendingCoupon(db: Db, accountId: string): Promise<PendingCouponRow | undefined> {
  return one<PendingCouponRow>(
    db,
    "pending_coupon_find",
    `select promotion_code_id as "promotionCodeId", coupon from pending_coupons where account_id = $1`,
    [accountId],
  );
}
