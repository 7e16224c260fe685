import { Stripe } from "stripe";
import { expect, test } from "vitest";
import { addPayer, FINALIZED_SECONDS, invoicesOf, itemOf, type Scenario, subscribe } from "./harness.ts";

type Terms = { coupon?: Stripe.CouponCreateParams; code?: Partial<Stripe.PromotionCodeCreateParams> };

/** Adds a code for half off what plans cost. */
export async function addCode({ stripe, prices }: Scenario, { coupon, code }: Terms = {}) {
  const { product } = await stripe.prices.retrieve(prices.of("plan", "pro", "monthly"));
  const made = await stripe.coupons.create({
    percent_off: 50,
    duration: "forever",
    applies_to: { products: [String(product)] },
    ...coupon,
  });
  return stripe.promotionCodes.create({
    code: `HALF${crypto.randomUUID().slice(0, 8)}`.toUpperCase(),
    promotion: { type: "coupon", coupon: made.id },
    ...code,
  });
}

/** Codes are found, applied and taken away. */
export function describeCoupons(scenario: () => Scenario): void {
  test("a code is found however it is written, with what it applies to", async () => {
    const { stripe } = scenario();
    const { id, code } = await addCode(scenario());
    const { data } = await stripe.promotionCodes.list({
      code: code.toLowerCase(),
      expand: ["data.promotion.coupon", "data.promotion.coupon.applies_to"],
    });
    expect(data).toMatchObject([{ id, active: true, times_redeemed: 0 }]);
    const coupon = data[0]!.promotion.coupon as Stripe.Coupon;
    expect(coupon).toMatchObject({ percent_off: 50, valid: true });
    expect(coupon.applies_to?.products).toHaveLength(1);
    expect((await stripe.promotionCodes.list({ code: "NO-SUCH-CODE-HERE" })).data).toEqual([]);
  });

  test("a code halves what the plan costs, not its seats", async () => {
    const { stripe } = scenario();
    const { id: promotionCode } = await addCode(scenario());
    const customer = await addPayer(scenario());
    const { id } = await subscribe(scenario(), customer.id, { cadence: "annual", seats: 1, promotionCode });
    const [invoice] = await invoicesOf(stripe, id);
    expect(invoice).toMatchObject({ subtotal: 30_000, total: 20_000, amount_paid: 20_000 });
    expect(await stripe.promotionCodes.retrieve(promotionCode)).toMatchObject({ times_redeemed: 1 });
  });

  test("a code holds from the next invoice on, until it is taken away", async () => {
    const { stripe, prices } = scenario();
    const { id: promotion_code } = await addCode(scenario());
    const customer = await addPayer(scenario());
    const subscription = await subscribe(scenario(), customer.id);
    const discounted = await stripe.subscriptions.update(subscription.id, {
      discounts: [{ promotion_code }],
      proration_behavior: "none",
      expand: ["discounts.source.coupon"],
    });
    expect(discounted.discounts).toMatchObject([{ promotion_code, source: { coupon: { percent_off: 50 } } }]);
    // Without them in a change, they stay.
    const same = await stripe.subscriptions.update(subscription.id, { metadata: { a: "b" } });
    expect(same.discounts).toHaveLength(1);
    const { current_period_end: end } = itemOf(subscription, prices.of("plan", "pro", "monthly"));
    await customer.advanceTo(end + FINALIZED_SECONDS);
    const [renewal] = await invoicesOf(stripe, subscription.id);
    expect(renewal).toMatchObject({ subtotal: 2_000, total: 1_000, status: "paid" });
    await stripe.subscriptions.deleteDiscount(subscription.id);
    expect((await stripe.subscriptions.retrieve(subscription.id)).discounts).toEqual([]);
    await stripe.subscriptions.update(subscription.id, { discounts: [{ promotion_code }] });
    expect((await stripe.subscriptions.update(subscription.id, { discounts: "" })).discounts).toEqual([]);
  });

  test("a code that is used up, expired or another customer's is refused", async () => {
    const { stripe } = scenario();
    const [used, own] = [
      await addCode(scenario(), { code: { max_redemptions: 1 } }),
      await addPayer(scenario()),
    ];
    await subscribe(scenario(), own.id, { promotionCode: used.id, compute: false });
    expect(await stripe.promotionCodes.retrieve(used.id)).toMatchObject({ active: false, times_redeemed: 1 });
    const restricted = await addCode(scenario(), { code: { customer: own.id } });
    const other = await addPayer(scenario());
    for (const { id: promotionCode } of [used, restricted])
      await expect(subscribe(scenario(), other.id, { promotionCode, compute: false })).rejects.toThrow(
        Stripe.errors.StripeInvalidRequestError,
      );
  });
}
