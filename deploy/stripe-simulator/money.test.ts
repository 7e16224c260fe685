import type Stripe from "stripe";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openShop, type Shop, subscribe } from "./testing.ts";

let shop: Shop;
beforeEach(async () => {
  shop = await openShop();
});
afterEach(() => shop.stop());

/** Attaches compute to a subscription and reports use until now. */
async function useCompute(subscription: string, units: string) {
  const { stripe, prices, customer } = shop;
  const item = await stripe.subscriptionItems.create({
    subscription,
    price: prices.compute.id,
    proration_behavior: "none",
  });
  await stripe.billing.meterEvents.create({
    event_name: "compute_usage",
    payload: { stripe_customer_id: customer.id, value: units },
  });
  return item;
}

test("an annual plan is canceled now: use is invoiced and paid on demand, some cash goes back, never too much", async () => {
  const { stripe, prices, days } = shop;
  const { id } = await subscribe(shop, prices.annual.id);
  await useCompute(id, "50000");
  days(20);
  const canceled = await stripe.subscriptions.cancel(id, {
    invoice_now: true,
    prorate: false,
    expand: ["latest_invoice"],
  });
  const final = canceled.latest_invoice as Stripe.Invoice;
  expect(canceled).toMatchObject({
    status: "canceled",
    cancellation_details: { reason: "cancellation_requested" },
  });
  expect(final).toMatchObject({ status: "open", total: 500, amount_remaining: 500, auto_advance: false });
  expect((await stripe.invoices.pay(final.id!)).status).toBe("paid");
  await expect(stripe.invoices.pay(final.id!)).rejects.toMatchObject({ code: "invoice_already_paid" });
  await expect(stripe.subscriptions.cancel(id)).rejects.toMatchObject({
    code: "resource_missing",
    statusCode: 404,
  });

  const [, paid] = (await stripe.invoices.list({ subscription: id })).data;
  const lines: Stripe.CreditNoteCreateParams.Line[] = [
    { type: "invoice_line_item", invoice_line_item: paid!.lines.data[0]!.id, amount: 18_000 },
  ];
  const preview = await stripe.creditNotes.preview({ invoice: paid!.id!, lines });
  expect(preview).toMatchObject({ total: 18_000, post_payment_amount: 18_000, pre_payment_amount: 0 });
  const create = (refund_amount: number) =>
    stripe.creditNotes.create({ invoice: paid!.id!, lines, refund_amount });
  await expect(create(17_000)).rejects.toThrow(/must equal the post payment amount/);
  const note = await create(18_000);
  expect(note).toMatchObject({ total: 18_000, refunds: [{ amount_refunded: 18_000 }] });
  await expect(create(18_000)).rejects.toThrow(/more than what is left/);
  const payment = (await stripe.invoicePayments.list({ invoice: paid!.id! })).data[0]!.payment
    .payment_intent as string;
  await expect(stripe.refunds.create({ payment_intent: payment, amount: 2_001 })).rejects.toThrow(/greater/);
  await stripe.refunds.create({ payment_intent: payment });
  expect((await stripe.refunds.list({ payment_intent: payment })).data.map(({ amount }) => amount)).toEqual([
    2_000, 18_000,
  ]);
});

test("credit grants pay what was used, up to what they hold; less than 50 cents is carried over", async () => {
  const { stripe, prices, customer, clock } = shop;
  const { id } = await subscribe(shop, prices.monthly.id);
  const grant = await stripe.billing.creditGrants.create({
    customer: customer.id,
    amount: { type: "monetary", monetary: { currency: "usd", value: 1000 } },
    applicability_config: { scope: { price_type: "metered" } },
    category: "promotional",
  });
  const item = await useCompute(id, "125000");
  clock.advance(item.current_period_end + 3600 - clock.now());
  const [invoice] = (await stripe.invoices.list({ subscription: id })).data;
  expect(invoice).toMatchObject({ status: "paid", subtotal: 3250, total: 2250, amount_paid: 2250 });
  expect(invoice!.total_pretax_credit_amounts).toMatchObject([
    { type: "credit_balance_transaction", amount: 1000 },
  ]);
  await stripe.billing.creditGrants.voidGrant(grant.id);

  const other = await stripe.customers.create({});
  const method = await stripe.paymentMethods.attach("pm_card_visa", { customer: other.id });
  const cheap = await stripe.prices.create({
    currency: "usd",
    product: shop.plan.id,
    unit_amount: 30,
    recurring: { interval: "month" },
  });
  const small = await stripe.subscriptions.create({
    customer: other.id,
    items: [{ price: cheap.id }],
    default_payment_method: method.id,
    expand: ["latest_invoice"],
  });
  expect(small.latest_invoice).toMatchObject({
    status: "paid",
    total: 30,
    amount_due: 0,
    ending_balance: 30,
  });
  expect(await stripe.customers.retrieve(other.id)).toMatchObject({ balance: 30 });
});

test("more seats are charged for the rest of the year at once; fewer give credit that the next invoice takes", async () => {
  const { stripe, prices, days } = shop;
  const { id, items } = await subscribe(shop, prices.annual.id);
  const item = items.data[0]!;
  days(73);
  await stripe.subscriptionItems.update(item.id, { quantity: 2, proration_behavior: "always_invoice" });
  const [proration] = (await stripe.invoices.list({ subscription: id })).data;
  expect(proration).toMatchObject({ billing_reason: "subscription_update", status: "paid" });
  expect(Math.abs(proration!.total - 16_000)).toBeLessThanOrEqual(60);
  expect(proration!.lines.data.map(({ parent }) => parent!.subscription_item_details!.proration)).toEqual([
    true,
    true,
  ]);

  await stripe.subscriptionItems.update(item.id, { quantity: 1, proration_behavior: "create_prorations" });
  expect((await stripe.invoices.createPreview({ subscription: id })).total).toBe(20_000 - proration!.total);
  await stripe.subscriptionItems.update(item.id, { quantity: 3, proration_behavior: "none" });
  expect((await stripe.invoiceItems.list({ pending: true })).data).toHaveLength(2);
});

test("coupons: percent of some products, once, for months; what cannot be redeemed is refused", async () => {
  const { stripe, prices, plan, days } = shop;
  const { id } = await subscribe(shop, prices.monthly.id);
  const make = async (coupon: Stripe.CouponCreateParams, code: Partial<Stripe.PromotionCodeCreateParams>) => {
    const { id: couponId } = await stripe.coupons.create(coupon);
    return stripe.promotionCodes.create({ promotion: { type: "coupon", coupon: couponId }, ...code });
  };
  const once = await make(
    { percent_off: 50, duration: "once", applies_to: { products: [plan.id] } },
    { code: "Once50" },
  );
  const [found] = (
    await stripe.promotionCodes.list({
      code: "oNCE50",
      expand: ["data.promotion.coupon", "data.promotion.coupon.applies_to"],
    })
  ).data;
  expect(found!.promotion.coupon).toMatchObject({ applies_to: { products: [plan.id] }, valid: true });
  const apply = (promotion_code: string) =>
    stripe.subscriptions.update(id, { discounts: [{ promotion_code }], proration_behavior: "none" });
  await apply(once.id);
  await useCompute(id, "10000");
  days(32);
  const totals = async () =>
    (await stripe.invoices.list({ subscription: id })).data.map(({ total }) => total);
  expect(await totals()).toEqual([1_000 + 100, 2_000]);
  expect((await stripe.subscriptions.retrieve(id)).discounts).toEqual([]);

  const spent = await make({ amount_off: 300, currency: "usd", duration: "forever" }, { max_redemptions: 1 });
  await apply(spent.id);
  await expect(apply(spent.id)).rejects.toMatchObject({ param: "discounts[0][promotion_code]" });
  const late = await make({ percent_off: 10, duration: "forever" }, { expires_at: shop.clock.now() + 60 });
  days(31);
  await expect(apply(late.id)).rejects.toThrow(/inactive/);
  const first = await make(
    { percent_off: 10, duration: "forever" },
    { restrictions: { first_time_transaction: true } },
  );
  await expect(apply(first.id)).rejects.toThrow(/prior transactions/);

  expect((await stripe.subscriptions.deleteDiscount(id)).deleted).toBe(true);
  await expect(stripe.subscriptions.deleteDiscount(id)).rejects.toMatchObject({ statusCode: 404 });
  expect((await stripe.subscriptions.update(id, { discounts: "" })).discounts).toEqual([]);
});

test("the portal shows invoices and takes a new card; an open invoice is paid on its page", async () => {
  const { stripe, prices, customer, days } = shop;
  const configuration = await stripe.billingPortal.configurations.create({
    features: {
      invoice_history: { enabled: true },
      payment_method_update: { enabled: true },
      customer_update: { enabled: true, allowed_updates: ["email", "address", "tax_id"] },
      subscription_cancel: { enabled: false },
      subscription_pause: { enabled: false },
      subscription_update: { enabled: false },
    },
  });
  const { id } = await subscribe(shop, prices.monthly.id, "4000000000000341");
  days(32);
  const portal = await stripe.billingPortal.sessions.create({
    customer: customer.id,
    configuration: configuration.id,
    return_url: "http://localhost/billing",
  });
  const shown = await (await fetch(portal.url)).text();
  expect(shown).toContain("visa ending in 0341");
  expect(shown).toContain("http://localhost/billing");
  const updated = await fetch(portal.url, {
    method: "POST",
    body: new URLSearchParams({ card_number: "5555555555554444" }),
  });
  expect(await updated.text()).toContain("mastercard ending in 4444");

  const [open] = (await stripe.invoices.list({ subscription: id, status: "open" })).data;
  const paid = await fetch(open!.hosted_invoice_url!, { method: "POST" });
  expect(await paid.text()).toContain("$20.00");
  expect((await stripe.subscriptions.retrieve(id)).status).toBe("active");
  const pdf = await fetch(open!.invoice_pdf!);
  expect(pdf.headers.get("content-type")).toBe("application/pdf");
  expect(await pdf.text()).toMatch(/^%PDF-1.4/);
});
