import type Stripe from "stripe";
import { kindOfProduct, productId } from "../pricing/keys.ts";
import { type Cadence, isPaidTier, PLANS, termCents } from "../pricing/plans.ts";
import { nameAt } from "../stripe/installation.ts";

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
  /** Whose plans it is for. */
  installation: string;
};

/** Returns why a promo code cannot be redeemed; undefined when it can (docs/billing.md#promo-codes). Pure. */
export function refusalOf(code: PromoCode, redeeming: Redeeming): CouponRefusal | undefined {
  const { now, plan, paidBefore, installation } = redeeming;
  if (isUsedUp(code) || isUsedUp(code.coupon)) return "redemption_limit";
  if (isPast(code.expires_at, now) || isPast(code.coupon.redeem_by, now)) return "expired";
  if (!code.active || !code.coupon.valid) return "expired";
  if (code.restrictions.first_time_transaction && paidBefore) return "not_eligible";
  return unfitness(code, plan, installation);
}

/** Returns why a promo code does not fit a plan of an installation, or any plan; undefined when it does. Pure. */
export function unfitness(
  code: PromoCode,
  plan: PlanChoice | undefined,
  installation: string,
): CouponRefusal | undefined {
  if (!isInDollars(code) || reachesCompute(code.coupon)) return "not_eligible";
  const plans = plan ? [plan] : ALL_PLANS;
  return plans.some((each) => isFor(code, each, installation)) ? undefined : "plan_restricted";
}

/** Whether a coupon would take something off compute too, which no discount does. */
export function reachesCompute({ applies_to }: Stripe.Coupon): boolean {
  return !applies_to || applies_to.products.some((id) => kindOfProduct(id)?.kind === "compute");
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

function isFor(
  { coupon, restrictions }: PromoCode,
  { tier, cadence }: PlanChoice,
  installation: string,
): boolean {
  if (!isPaidTier(tier)) return false;
  const product = nameAt(installation, productId("plan", tier));
  const price = termCents(PLANS[tier].monthlyCents, cadence);
  return (
    coupon.applies_to?.products.includes(product) === true && (restrictions.minimum_amount ?? 0) <= price
  );
}
