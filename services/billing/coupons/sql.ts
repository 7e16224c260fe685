import { type Db, execute, one } from "../../kit/postgres/db.ts";
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

/** Saves a promo code for the account's next subscription, in place of one that is saved. */
export function putPendingCoupon(db: Db, accountId: string, row: PendingCouponRow, at: Date) {
  return execute(
    db,
    "pending_coupon_put",
    `insert into pending_coupons (account_id, promotion_code_id, coupon, saved_at) values ($1, $2, $3, $4)
     on conflict (account_id) do update set promotion_code_id = $2, coupon = $3, saved_at = $4, refused = null`,
    [accountId, row.promotionCodeId, JSON.stringify(row.coupon), at],
  );
}

export function deletePendingCoupon(db: Db, accountId: string): Promise<number> {
  return execute(db, "pending_coupon_delete", "delete from pending_coupons where account_id = $1", [
    accountId,
  ]);
}

/** Deletes the saved code if it is this one and was saved before a subscription that it was spent on. */
export function deleteSpentCoupon(db: Db, accountId: string, promotionCodeId: string, spent: Date) {
  return execute(
    db,
    "pending_coupon_spent",
    `delete from pending_coupons
     where account_id = $1 and promotion_code_id = $2 and date_trunc('second', saved_at) <= $3`,
    [accountId, promotionCodeId, spent],
  );
}

/** Notes for what the saved code could not be spent, and why. Returns 0 when this was noted before. */
export function noteRefused(db: Db, accountId: string, refused: string): Promise<number> {
  return execute(
    db,
    "pending_coupon_refused",
    "update pending_coupons set refused = $2 where account_id = $1 and refused is distinct from $2",
    [accountId, refused],
  );
}
