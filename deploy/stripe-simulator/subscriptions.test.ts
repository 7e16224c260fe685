import type Stripe from "stripe";
import { afterEach, beforeEach, expect, test } from "vitest";
import { addIntervals } from "./catalog/periods.ts";
import { openSession, openShop, payOnPage, type Shop, subscribe } from "./testing.ts";

let shop: Shop;
beforeEach(async () => {
  shop = await openShop();
});
afterEach(() => shop.stop());

test("an annual plan is bought on the page, compute is attached, used, invoiced with an hour's grace and paid", async () => {
  const { stripe, prices, customer, clock } = shop;
  const session = await openSession(shop, {
    price: prices.annual.id,
    metadata: { hash: "h1" },
    subscription_data: { billing_mode: { type: "flexible" }, metadata: { accountId: "acc_1" } },
  });
  const paid = await payOnPage(session);
  expect(paid.status).toBe(303);
  expect(paid.headers.get("location")).toBe(`http://localhost/done?session=${session.id}`);

  const complete = await stripe.checkout.sessions.retrieve(session.id);
  expect(complete).toMatchObject({ status: "complete", payment_status: "paid", url: null });
  const id = complete.subscription as string;
  const bought = await stripe.subscriptions.retrieve(id, {
    expand: ["default_payment_method", "latest_invoice"],
  });
  expect(bought).toMatchObject({
    status: "active",
    metadata: { accountId: "acc_1" },
    default_payment_method: { card: { brand: "visa", last4: "4242" } },
    latest_invoice: {
      status: "paid",
      total: 20_000,
      amount_paid: 20_000,
      billing_reason: "subscription_create",
    },
  });

  await stripe.subscriptionItems.create({
    subscription: id,
    price: prices.compute.id,
    proration_behavior: "none",
  });
  const [plan, compute] = (await stripe.subscriptions.retrieve(id)).items.data;
  expect(plan!.current_period_end).toBeGreaterThan(compute!.current_period_end);

  clock.advance(compute!.current_period_end - clock.now());
  const [draft] = (await stripe.invoices.list({ customer: customer.id })).data;
  expect(draft).toMatchObject({ status: "draft", total: 0, billing_reason: "subscription_cycle" });
  await stripe.billing.meterEvents.create({
    event_name: "compute_usage",
    timestamp: compute!.current_period_end - 1,
    payload: { stripe_customer_id: customer.id, value: "123400" },
  });
  clock.advance(3600);
  const invoice = await stripe.invoices.retrieve(draft!.id!, { expand: ["payments"] });
  expect(invoice).toMatchObject({ status: "paid", total: 1234, amount_paid: 1234 });
  expect(invoice.lines.data).toMatchObject([
    {
      amount: 1234,
      quantity: 123_400,
      pricing: { price_details: { price: prices.compute.id } },
      parent: { subscription_item_details: { subscription_item: compute!.id } },
      period: { start: compute!.current_period_start, end: compute!.current_period_end },
    },
  ]);
  expect(invoice.payments!.data).toMatchObject([{ status: "paid", amount_paid: 1234 }]);
});

test("a card that fails at renewals: past_due, four retries in 14 days, then canceled", async () => {
  const { stripe, prices, clock, days } = shop;
  const { id, items } = await subscribe(shop, prices.monthly.id, "4000000000000341");
  clock.advance(items.data[0]!.current_period_end - clock.now());
  days(1);
  expect((await stripe.subscriptions.retrieve(id)).status).toBe("past_due");
  days(12);
  const { latest_invoice, status } = await stripe.subscriptions.retrieve(id, { expand: ["latest_invoice"] });
  expect(status).toBe("past_due");
  expect(latest_invoice).toMatchObject({ status: "open", attempt_count: 4 });
  days(3);
  expect(await stripe.subscriptions.retrieve(id)).toMatchObject({
    status: "canceled",
    cancellation_details: { reason: "payment_failed" },
  });
});

test("a subscription ends with its period when it is told to, with a last invoice for what was used", async () => {
  const { stripe, prices, clock, customer } = shop;
  const { id, items } = await subscribe(shop, prices.monthly.id);
  await stripe.subscriptionItems.create({
    subscription: id,
    price: prices.compute.id,
    proration_behavior: "none",
  });
  const end = items.data[0]!.current_period_end;
  const leaving = await stripe.subscriptions.update(id, {
    cancel_at_period_end: true,
    cancellation_details: { comment: "too dear" },
  });
  expect(leaving).toMatchObject({
    status: "active",
    cancel_at_period_end: true,
    cancel_at: end,
    cancellation_details: { comment: "too dear" },
  });
  await stripe.billing.meterEvents.create({
    event_name: "compute_usage",
    payload: { stripe_customer_id: customer.id, value: "70000" },
  });
  clock.advance(end - clock.now());
  expect(await stripe.subscriptions.retrieve(id)).toMatchObject({ status: "canceled", ended_at: end });
  clock.advance(3600);
  const totals = (await stripe.invoices.list({ subscription: id })).data.map(({ status, total }) => ({
    status,
    total,
  }));
  expect(totals).toEqual([
    { status: "paid", total: 700 },
    { status: "paid", total: 2000 },
  ]);
  await expect(stripe.subscriptions.update(id, { cancel_at_period_end: false })).rejects.toThrow(/canceled/);
  expect((await stripe.subscriptions.list({ customer: customer.id })).data).toEqual([]);
  expect((await stripe.subscriptions.list({ customer: customer.id, status: "all" })).data).toHaveLength(1);
});

test("a subscription of both intervals may end with either; nothing is invoiced to a customer who is deleted", async () => {
  const { stripe, prices, customer, days } = shop;
  const { id } = await subscribe(shop, prices.annual.id);
  await stripe.subscriptionItems.create({
    subscription: id,
    price: prices.compute.id,
    proration_behavior: "none",
  });
  const [plan, compute] = (await stripe.subscriptions.retrieve(id)).items.data;
  const endOf = async (params: Stripe.SubscriptionUpdateParams) =>
    (await stripe.subscriptions.update(id, params)).cancel_at;
  expect(await endOf({ cancel_at: "max_period_end" })).toBe(plan!.current_period_end);
  expect(await endOf({ cancel_at_period_end: true })).toBe(compute!.current_period_end);
  expect(await endOf({ cancel_at_period_end: false })).toBeNull();

  await stripe.customers.del(customer.id);
  days(400);
  expect(await stripe.customers.retrieve(customer.id)).toEqual({
    id: customer.id,
    object: "customer",
    deleted: true,
  });
  expect((await stripe.invoices.list({ subscription: id })).data).toHaveLength(1);
});

test.each([
  ["2026-01-31T10:00:00Z", "month", 1, "2026-02-28T10:00:00Z"],
  ["2026-01-31T10:00:00Z", "month", 2, "2026-03-31T10:00:00Z"],
  ["2028-02-29T00:00:00Z", "year", 1, "2029-02-28T00:00:00Z"],
  ["2028-02-29T00:00:00Z", "year", 4, "2032-02-29T00:00:00Z"],
  ["2026-12-31T23:59:59Z", "month", 2, "2027-02-28T23:59:59Z"],
] as const)("from %s, %s times %i is %s", (anchor, interval, times, expected) => {
  const seconds = (text: string) => Date.parse(text) / 1000;
  expect(addIntervals(seconds(anchor), { interval, interval_count: 1 }, times)).toBe(seconds(expected));
});

test("a request happens at one moment, whatever the clock does meanwhile", async () => {
  let seconds = Math.floor(Date.now() / 1_000);
  const ticking = await openShop({ realTime: () => seconds++ * 1_000 });
  try {
    const { stripe, prices } = ticking;
    const { items } = await subscribe(ticking, prices.annual.id);
    await stripe.subscriptionItems.update(items.data[0]!.id, {
      quantity: 2,
      proration_behavior: "always_invoice",
    });
    const [invoice] = (await stripe.invoices.list({ limit: 1 })).data;
    const { created, lines, status_transitions } = invoice!;
    expect(lines.data.map(({ period }) => period.start)).toEqual([created, created]);
    expect(status_transitions).toMatchObject({ finalized_at: created, paid_at: created });
  } finally {
    await ticking.stop();
  }
});
