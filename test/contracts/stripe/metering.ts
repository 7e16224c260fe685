import type { Stripe } from "stripe";
import { expect, test } from "vitest";
import { METER } from "../../../services/billing/catalog/seed.ts";
import { addCode } from "./coupons.ts";
import {
  addPayer,
  type Customer,
  FINALIZED_SECONDS,
  invoicesOf,
  itemOf,
  type Scenario,
  subscribe,
} from "./harness.ts";

/** Reports that a customer used so much since the period began; a unit is a hundredth of a cent. */
async function report(stripe: Stripe, customer: string, units: number, timestamp: number): Promise<void> {
  await stripe.billing.meterEvents.create({
    event_name: METER,
    identifier: crypto.randomUUID(),
    timestamp,
    payload: { stripe_customer_id: customer, value: String(units) },
  });
}

/** Waits until the last that was reported is what the meter shows, which takes Stripe a while. */
async function untilMetered(
  scenario: Scenario,
  customer: string,
  units: number,
  since: number,
): Promise<void> {
  const { stripe, prices } = scenario;
  const meter = (await stripe.prices.retrieve(prices.compute)).recurring!.meter!;
  const minute = (time: number) => time - (time % 60);
  const period = { start_time: minute(since), end_time: minute(since) + 86_400 };
  const shown = async () => {
    const { data } = await stripe.billing.meters.listEventSummaries(meter, { customer, ...period });
    return data[0]?.aggregated_value;
  };
  await expect.poll(shown, { timeout: 120_000, interval: 1_000 }).toBe(units);
}

/** Subscribes a customer to a month of pro, with its credit of $10 for compute. */
async function subscribeWithCredit(scenario: Scenario) {
  const { stripe, prices } = scenario;
  const customer = await addPayer(scenario);
  const subscription = await subscribe(scenario, customer.id);
  const { current_period_start: start, current_period_end: end } = itemOf(subscription, prices.compute);
  await stripe.billing.creditGrants.create({
    customer: customer.id,
    category: "promotional",
    amount: { type: "monetary", monetary: { currency: "usd", value: 1_000 } },
    applicability_config: { scope: { prices: [{ id: prices.compute }] } },
    expires_at: end + 7 * 86_400,
  });
  return { customer, subscription, start, end };
}

/** Uses compute: what was reported last counts, here $15. */
async function useCompute(scenario: Scenario, customer: Customer, start: number): Promise<void> {
  await report(scenario.stripe, customer.id, 200_000, start + 1);
  await report(scenario.stripe, customer.id, 150_000, start + 2);
  await untilMetered(scenario, customer.id, 150_000, start);
}

const linesOf = (invoice: Stripe.Invoice, price: string) =>
  invoice.lines.data.filter(({ pricing }) => pricing?.price_details?.price === price);

/** Compute is metered, invoiced after its period, and paid from the plan's credit first. */
export function describeMetering(scenario: () => Scenario): void {
  test("compute is invoiced after its period, less the plan's credit", async () => {
    const { stripe, prices } = scenario();
    const { customer, subscription, start, end } = await subscribeWithCredit(scenario());
    await useCompute(scenario(), customer, start);
    await customer.advanceTo(end + 60);
    const [draft] = await invoicesOf(stripe, subscription.id);
    expect(draft).toMatchObject({ status: "draft", billing_reason: "subscription_cycle" });
    await customer.advanceTo(end + FINALIZED_SECONDS);
    const invoice = await stripe.invoices.retrieve(draft!.id);
    expect(linesOf(invoice, prices.compute)).toMatchObject([{ amount: 1_500, period: { start, end } }]);
    expect(invoice).toMatchObject({ status: "paid", subtotal: 3_500, total: 2_500, amount_paid: 2_500 });
  });

  // What Berth's cancelation rests on, and Stripe does not document.
  test("compute until a cancelation is invoiced at once, less the plan's credit, and waits to be paid", async () => {
    const { stripe, prices } = scenario();
    const { customer, subscription, start } = await subscribeWithCredit(scenario());
    await useCompute(scenario(), customer, start);
    await customer.advanceTo(start + 86_400);
    await stripe.subscriptions.cancel(subscription.id, { invoice_now: true, prorate: false });
    const [last] = await invoicesOf(stripe, subscription.id);
    expect(linesOf(last!, prices.compute)).toMatchObject([{ amount: 1_500 }]);
    expect(last).toMatchObject({ status: "open", total: 500, amount_remaining: 500 });
    expect(await stripe.invoices.pay(last!.id)).toMatchObject({ status: "paid", amount_paid: 500 });
  });

  // What Berth's coupons rest on, and Stripe does not document.
  test("a code for one invoice is not used up by an invoice of compute alone", async () => {
    const { stripe, prices } = scenario();
    const { id: promotion_code } = await addCode(scenario(), { coupon: { duration: "once" } });
    const customer = await addPayer(scenario());
    const { id, items } = await subscribe(scenario(), customer.id, { cadence: "annual" });
    await stripe.subscriptions.update(id, { discounts: [{ promotion_code }], proration_behavior: "none" });
    const { current_period_start: start, current_period_end: end } = items.data.find(
      ({ price }) => price.id === prices.compute,
    )!;
    await useCompute(scenario(), customer, start);
    await customer.advanceTo(end + FINALIZED_SECONDS);
    const [compute] = await invoicesOf(stripe, id);
    expect(compute).toMatchObject({ billing_reason: "subscription_cycle", subtotal: 1_500, total: 1_500 });
    expect((await stripe.subscriptions.retrieve(id)).discounts).toHaveLength(1);
  });
}
