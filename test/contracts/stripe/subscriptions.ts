import { Stripe } from "stripe";
import { expect, test } from "vitest";
import { seed } from "../../../services/billing/pricing/seed.ts";
import {
  addPayer,
  FINALIZED_SECONDS,
  invoicesOf,
  itemOf,
  type Scenario,
  subscribe,
  useCard,
} from "./harness.ts";

const { StripeInvalidRequestError, StripeIdempotencyError } = Stripe.errors;

/** Subscriptions begin, are paid, change and end. */
export function describeSubscriptions(scenario: () => Scenario): void {
  test("what is sold is there once, however often it is made", async () => {
    const { stripe, provider, prices } = scenario();
    await seed(provider);
    const keys = ["plan_pro_annual_2026-11", "compute_monthly_2026-11"];
    const { data } = await stripe.prices.list({ lookup_keys: keys, limit: 10 });
    expect(data.map(({ id }) => id).sort()).toEqual(
      [prices.of("plan", "pro", "annual"), prices.compute].sort(),
    );
  });

  test("an annual plan is paid ahead, with compute by the month beside it", async () => {
    const { stripe, prices } = scenario();
    const customer = await addPayer(scenario());
    const subscription = await subscribe(scenario(), customer.id, { cadence: "annual", seats: 2 });
    expect(subscription).toMatchObject({ status: "active", billing_mode: { type: "flexible" } });
    const plan = itemOf(subscription, prices.of("plan", "pro", "annual"));
    const compute = itemOf(subscription, prices.compute);
    expect(subscription.items.data).toHaveLength(3);
    expect(subscription).not.toHaveProperty("current_period_end");
    const days = (item: Stripe.SubscriptionItem) =>
      (item.current_period_end - item.current_period_start) / 86_400;
    expect(days(plan)).toBeGreaterThanOrEqual(365);
    expect(days(compute)).toBeLessThanOrEqual(31);
    expect(compute.quantity).toBeUndefined();

    const [invoice, ...others] = await invoicesOf(stripe, subscription.id);
    expect(others).toEqual([]);
    expect(invoice).toMatchObject({ status: "paid", total: 40_000, billing_reason: "subscription_create" });
    expect(invoice!.parent?.subscription_details?.subscription).toBe(subscription.id);
    const line = invoice!.lines.data.find(({ amount }) => amount === plan.price.unit_amount)!;
    expect(line.pricing?.price_details?.price).toBe(plan.price.id);
    expect(line.parent?.subscription_item_details?.subscription_item).toBe(plan.id);
    expect(line.period.end - line.period.start).toBe(plan.current_period_end - plan.current_period_start);
  });

  test("compute has no quantity, and is sold by no checkout of an annual plan", async () => {
    const { stripe, prices } = scenario();
    const customer = await addPayer(scenario());
    const { id } = await subscribe(scenario(), customer.id, { compute: false });
    const withQuantity = stripe.subscriptionItems.create({
      subscription: id,
      price: prices.compute,
      quantity: 1,
    });
    await expect(withQuantity).rejects.toThrow(StripeInvalidRequestError);
    const mixed = stripe.checkout.sessions.create({
      mode: "subscription",
      success_url: "https://berth.example.com",
      line_items: [{ price: prices.of("plan", "pro", "annual"), quantity: 1 }, { price: prices.compute }],
      subscription_data: { billing_mode: { type: "flexible" } },
    });
    await expect(mixed).rejects.toThrow(StripeInvalidRequestError);
  });

  test("a checkout is open until it expires, which it does once", async () => {
    const { stripe, prices, addCustomer } = scenario();
    const { id: customer } = await addCustomer();
    const { id, url } = await stripe.checkout.sessions.create({
      mode: "subscription",
      ui_mode: "hosted_page",
      customer,
      success_url: "https://berth.example.com",
      line_items: [{ price: prices.of("plan", "pro", "annual"), quantity: 1 }],
      subscription_data: { billing_mode: { type: "flexible" } },
    });
    expect(url).toMatch(/^https?:/);
    const open = async () => (await stripe.checkout.sessions.list({ customer, status: "open" })).data;
    expect(await open()).toMatchObject([{ id, payment_status: "unpaid", subscription: null }]);
    expect(await stripe.checkout.sessions.expire(id)).toMatchObject({ status: "expired", url: null });
    expect(await open()).toEqual([]);
    await expect(stripe.checkout.sessions.expire(id)).rejects.toThrow(StripeInvalidRequestError);
  });

  test("one that is canceled for its period's end runs until then", async () => {
    const { stripe, prices } = scenario();
    const customer = await addPayer(scenario());
    const { id } = await subscribe(scenario(), customer.id);
    const canceling = await stripe.subscriptions.update(id, {
      cancel_at_period_end: true,
      cancellation_details: { comment: "too expensive" },
    });
    const { current_period_end: end } = itemOf(canceling, prices.of("plan", "pro", "monthly"));
    expect(canceling).toMatchObject({
      status: "active",
      cancel_at: end,
      cancel_at_period_end: true,
      cancellation_details: { comment: "too expensive" },
    });
    await customer.advanceTo(end - 60);
    expect(await stripe.subscriptions.retrieve(id)).toMatchObject({ status: "active", ended_at: null });
    await customer.advanceTo(end + FINALIZED_SECONDS);
    expect(await stripe.subscriptions.retrieve(id)).toMatchObject({ status: "canceled", ended_at: end });
    await expect(stripe.subscriptions.cancel(id)).rejects.toMatchObject({ code: "resource_missing" });
    const { data } = await stripe.subscriptions.list({ customer: customer.id, status: "all" });
    expect(data).toMatchObject([{ id, status: "canceled" }]);
  });

  test("a first payment that fails leaves it incomplete until it is paid", async () => {
    const { stripe } = scenario();
    const customer = await addPayer(scenario(), "pm_card_chargeCustomerFail");
    const { id, status } = await subscribe(scenario(), customer.id, { compute: false });
    expect(status).toBe("incomplete");
    const [invoice] = await invoicesOf(stripe, id);
    expect(invoice).toMatchObject({ status: "open", attempted: true });
    await expect(stripe.invoices.pay(invoice!.id)).rejects.toMatchObject({ type: "StripeCardError" });
    await useCard(stripe, customer.id, "pm_card_visa");
    expect(await stripe.invoices.pay(invoice!.id)).toMatchObject({ status: "paid" });
    expect(await stripe.subscriptions.retrieve(id)).toMatchObject({ status: "active" });
  });

  test("a renewal that fails makes it past due until it is paid", async () => {
    const { stripe, prices } = scenario();
    const customer = await addPayer(scenario());
    const subscription = await subscribe(scenario(), customer.id);
    const { current_period_end: end } = itemOf(subscription, prices.of("plan", "pro", "monthly"));
    await useCard(stripe, customer.id, "pm_card_chargeCustomerFail");
    await customer.advanceTo(end + FINALIZED_SECONDS);
    const state = () => stripe.subscriptions.retrieve(subscription.id);
    expect(await state()).toMatchObject({ status: "past_due" });
    const [renewal] = await invoicesOf(stripe, subscription.id);
    expect(renewal).toMatchObject({ status: "open", billing_reason: "subscription_cycle" });
    expect(renewal!.next_payment_attempt).not.toBeNull();
    await useCard(stripe, customer.id, "pm_card_visa");
    await stripe.invoices.pay(renewal!.id);
    expect(await state()).toMatchObject({ status: "active" });
  });

  test("a seat that is added is paid at once where that is asked for", async () => {
    const { stripe, prices } = scenario();
    const customer = await addPayer(scenario());
    const { id } = await subscribe(scenario(), customer.id, { cadence: "annual" });
    const price = prices.of("seat", "pro", "annual");
    await stripe.subscriptionItems.create({
      subscription: id,
      price,
      quantity: 1,
      proration_behavior: "always_invoice",
    });
    const [added, first] = await invoicesOf(stripe, id);
    expect(first).toMatchObject({ total: 20_000, status: "paid" });
    expect(added).toMatchObject({ total: 10_000, status: "paid", billing_reason: "subscription_update" });
  });

  test("a key repeats one request and no other", async () => {
    const { stripe } = scenario();
    const idempotencyKey = `key:${crypto.randomUUID()}`;
    const first = await stripe.customers.create({ name: "once" }, { idempotencyKey });
    const again = await stripe.customers.create({ name: "once" }, { idempotencyKey });
    expect(again.id).toBe(first.id);
    expect(again.lastResponse.headers["idempotent-replayed"]).toBe("true");
    const other = stripe.customers.create({ name: "other" }, { idempotencyKey });
    await expect(other).rejects.toThrow(StripeIdempotencyError);
    await stripe.customers.del(first.id);
  });

  test("what became of a subscription is in the list of events", async () => {
    const { stripe } = scenario();
    const customer = await addPayer(scenario());
    const { id, created } = await subscribe(scenario(), customer.id, { compute: false });
    await stripe.subscriptions.cancel(id, { prorate: false });
    const types = ["customer.subscription.created", "customer.subscription.deleted"];
    const seen = async () => {
      const found: string[] = [];
      for await (const { type, data } of stripe.events.list({ types, created: { gte: created }, limit: 2 }))
        if ((data.object as { id?: string }).id === id) found.push(type);
      return found.length === types.length ? found : undefined;
    };
    await expect.poll(seen, { timeout: 60_000, interval: 1_000 }).toEqual(types.toReversed());
  });
}
