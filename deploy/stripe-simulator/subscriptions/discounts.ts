import type Stripe from "stripe";
import { addIntervals } from "../catalog/periods.ts";
import type { DiscountSource } from "../catalog/promotion-codes.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";

/** Adds a discount to a subscription, or to one item of it; counts as a redemption of its coupon and code. */
export function addDiscount(
  world: World,
  subscription: Stripe.Subscription,
  source: DiscountSource,
  at: { item?: string; session?: string } = {},
): string {
  const { state, clock } = world;
  const coupon = state.coupons.get(source.coupon)!;
  const now = clock.now();
  const discount = {
    id: newId("di"),
    object: "discount",
    checkout_session: at.session ?? null,
    customer: idOf(subscription.customer),
    customer_account: null,
    end:
      coupon.duration === "repeating"
        ? addIntervals(now, { interval: "month", interval_count: 1 }, coupon.duration_in_months ?? 1)
        : null,
    invoice: null,
    invoice_item: null,
    promotion_code: source.promotion_code,
    source: { coupon: coupon.id, type: "coupon" },
    start: now,
    subscription: subscription.id,
    subscription_item: at.item ?? null,
  } satisfies Stripe.Discount;
  state.discounts.set(discount.id, discount);
  coupon.times_redeemed++;
  const code = state.promotionCodes.get(source.promotion_code ?? "");
  if (code) code.times_redeemed++;
  world.emit("customer.discount.created", discount);
  return discount.id;
}

/** Removes the discounts of a subscription, not those of its items; returns the last one, if any. */
export function clearDiscounts(world: World, subscription: Stripe.Subscription): Stripe.Discount | undefined {
  const gone = subscription.discounts.map((discount) => world.state.discounts.get(idOf(discount))!);
  subscription.discounts = [];
  for (const discount of gone) endDiscount(world, discount);
  return gone.at(-1);
}

/** Removes discounts that are spent: `once` ones after an invoice used them, others past their end. */
export function dropSpentDiscounts(
  world: World,
  subscription: Stripe.Subscription,
  invoice?: Stripe.Invoice,
): void {
  const { state, clock } = world;
  const isSpent = (discount: Stripe.Discount) => {
    const coupon = state.coupons.get(idOf(discount.source.coupon ?? ""));
    const used = invoice?.total_discount_amounts?.some(
      (one) => idOf(one.discount) === discount.id && one.amount > 0,
    );
    return (coupon?.duration === "once" && used) || (discount.end !== null && discount.end <= clock.now());
  };
  const drop = (ids: (string | Stripe.Discount)[]) =>
    ids.map(idOf).filter((id) => {
      const discount = state.discounts.get(id);
      if (!discount || !isSpent(discount)) return true;
      endDiscount(world, discount);
      return false;
    });
  subscription.discounts = drop(subscription.discounts);
  for (const item of subscription.items.data) item.discounts = drop(item.discounts);
}

function endDiscount({ clock, emit }: World, discount: Stripe.Discount): void {
  discount.end = clock.now();
  emit("customer.discount.deleted", discount);
}
