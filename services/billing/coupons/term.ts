import { monthsAfter } from "../pricing/terms.ts";
import type { PromoCode } from "./eligibility.ts";
import type { Redemption, Rest } from "./redemptions.ts";

// Times are whole seconds since 1970.

/** The payments for a plan that are to come: when the next one is due, and how many months lie between two. */
export type Payments = { next: number; months: number };

/**
 * Returns what is left of the term of a code that was redeemed before; undefined when nothing is: it counts once, and its
 * months pass whether it is removed or not (docs/billing.md#promo-codes). Pure.
 */
export function restOf(
  { coupon }: Pick<PromoCode, "coupon">,
  { startedAt, used }: Pick<Redemption, "startedAt" | "used">,
  now: number,
  payments: Payments,
): Rest | undefined {
  if (coupon.duration === "forever") return "forever";
  if (coupon.duration === "once") return used ? undefined : "once";
  return monthsLeft(now, monthsAfter(startedAt, coupon.duration_in_months ?? 0), payments);
}

/**
 * Returns how many months a discount that begins now has to last to reduce exactly the payments before `end`: the
 * provider counts whole months. Undefined when there is no such payment.
 */
function monthsLeft(now: number, end: number, { next, months }: Payments): number | undefined {
  let count = 0;
  while (monthsAfter(next, count * months) < end) count++;
  if (count === 0) return undefined;
  const last = monthsAfter(next, (count - 1) * months);
  let left = 1;
  while (monthsAfter(now, left) <= last) left++;
  return left;
}
