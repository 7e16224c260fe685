import { monthsAfter } from "../pricing/terms.ts";
import type { PromoCode } from "./eligibility.ts";
import type { Redemption, Rest } from "./redemptions.ts";

// Times are whole seconds since 1970.

/**
 * When payments are due: from which time they are counted, because a day that a month does not have moves only the payment
 * of that month, and when the next one is.
 */
export type DueFrom = { anchor: number; next: number };

/** The payments for a plan that are to come, and how many months lie between two. */
export type Payments = DueFrom & { months: number };

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
function monthsLeft(now: number, end: number, { anchor, next, months }: Payments): number | undefined {
  const dueAt = (payment: number) => monthsAfter(anchor, payment * months);
  let payments = 0;
  while (dueAt(payments) < end) payments++;
  const last = dueAt(payments - 1);
  if (payments === 0 || last < next) return undefined;
  let left = 1;
  while (monthsAfter(now, left) <= last) left++;
  return left;
}
