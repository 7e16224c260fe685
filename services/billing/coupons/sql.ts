import { type Db, execute, one } from "../../kit/postgres/db.ts";
import type { Coupon } from "../subscription/mirror-subscription.ts";
import type { Redemption } from "./redemptions.ts";

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

/** Deletes the saved code if it is this one and was saved before it was applied to a subscription. */
export function deleteAppliedCoupon(db: Db, accountId: string, promotionCodeId: string, appliedAt: Date) {
  return execute(
    db,
    "pending_coupon_spent",
    `delete from pending_coupons
     where account_id = $1 and promotion_code_id = $2 and date_trunc('second', saved_at) <= $3`,
    [accountId, promotionCodeId, appliedAt],
  );
}

/** Records what the saved code does not apply to, and why. Returns 0 when that was recorded before. */
export function recordCouponRefusal(db: Db, accountId: string, refused: string): Promise<number> {
  return execute(
    db,
    "pending_coupon_refused",
    "update pending_coupons set refused = $2 where account_id = $1 and refused is distinct from $2",
    [accountId, refused],
  );
}

/** Records promo codes that were redeemed. Each counts from its first redemption. */
export async function putRedemptions(db: Db, accountId: string, redemptions: Redemption[]): Promise<void> {
  if (redemptions.length === 0) return;
  await execute(
    db,
    "redeemed_codes_put",
    `insert into redeemed_codes as r (account_id, promotion_code_id, started_at, used)
     select $1, code, to_timestamp(min(started)), bool_or(used)
     from unnest($2::text[], $3::float8[], $4::boolean[]) as found (code, started, used) group by code order by code
     on conflict (account_id, promotion_code_id) do update
       set started_at = least(r.started_at, excluded.started_at), used = r.used or excluded.used
       where r.started_at > excluded.started_at or excluded.used and not r.used`,
    [
      accountId,
      redemptions.map(({ promotionCodeId }) => promotionCodeId),
      redemptions.map(({ startedAt }) => startedAt),
      redemptions.map(({ used }) => used),
    ],
  );
}

/** Returns the redemption of a promo code by an account; undefined when it did not redeem it. */
export function findRedemption(
  db: Db,
  accountId: string,
  promotionCodeId: string,
): Promise<Redemption | undefined> {
  return one<Redemption>(
    db,
    "redeemed_code_find",
    `select promotion_code_id as "promotionCodeId", extract(epoch from started_at)::bigint as "startedAt", used
     from redeemed_codes where account_id = $1 and promotion_code_id = $2`,
    [accountId, promotionCodeId],
  );
}

export function deleteRedemptions(db: Db, accountId: string): Promise<number> {
  return execute(db, "redeemed_codes_delete", "delete from redeemed_codes where account_id = $1", [
    accountId,
  ]);
}
