import type Stripe from "stripe";
import { productId } from "../catalog/keys.ts";
import { type Cadence, isPaidTier, PLANS, termCents } from "../catalog/plans.ts";

/** A plan as it is, or is to be, subscribed to. */
export type PlanChoice = { tier: string; cadence: Cadence };

/** A promo code with the coupon that it gives. */
export type PromoCode = Omit<Stripe.PromotionCode, "promotion"> & { coupon: Stripe.Coupon };

/** Why a promo code cannot be redeemed. */
export type CouponRefusal = "expired" | "redemption_limit" | "plan_restricted" | "not_eligible";

type Redeeming = {
  /** In seconds. */
  now: number;
  /** The plan that it is for; undefined when that is not known yet. */
  plan?: PlanChoice | undefined;
  /** Whether the account paid an invoice before. */
  paidBefore: boolean;
};

/** Returns why a promo code cannot be redeemed; undefined when it can (docs/billing.md#promo-codes). Pure. */
export function refusalOf(code: PromoCode, { now, plan, paidBefore }: Redeeming): CouponRefusal | undefined {
  if (isUsedUp(code) || isUsedUp(code.coupon)) return "redemption_limit";
  if (isPast(code.expires_at, now) || isPast(code.coupon.redeem_by, now)) return "expired";
  if (!code.active || !code.coupon.valid) return "expired";
  if (code.restrictions.first_time_transaction && paidBefore) return "not_eligible";
  if (!isInDollars(code) || reachesCompute(code.coupon)) return "not_eligible";
  const plans = plan ? [plan] : ALL_PLANS;
  return plans.some((each) => isFor(code, each)) ? undefined : "plan_restricted";
}

/** Whether a coupon would take something off compute too, which no discount does. */
export function reachesCompute({ applies_to }: Stripe.Coupon): boolean {
  return !applies_to || applies_to.products.includes(productId("compute"));
}

const ALL_PLANS = Object.keys(PLANS).flatMap((tier): PlanChoice[] => [
  { tier, cadence: "monthly" },
  { tier, cadence: "annual" },
]);

const isUsedUp = ({
  times_redeemed,
  max_redemptions,
}: Pick<PromoCode, "times_redeemed" | "max_redemptions">) =>
  max_redemptions !== null && times_redeemed >= max_redemptions;

const isPast = (at: number | null, now: number) => at !== null && at <= now;

function isInDollars({ coupon, restrictions }: PromoCode): boolean {
  const currencies = [coupon.currency, restrictions.minimum_amount_currency];
  return currencies.every((currency) => currency === null || currency === "usd");
}

function isFor({ coupon, restrictions }: PromoCode, { tier, cadence }: PlanChoice): boolean {
  if (!isPaidTier(tier)) return false;
  const price = termCents(PLANS[tier].monthlyCents, cadence);
  return (
    coupon.applies_to?.products.includes(productId("plan", tier)) === true &&
    (restrictions.minimum_amount ?? 0) <= price
  );
}
