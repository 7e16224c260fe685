import type { Stripe } from "stripe";
import { expect, test } from "vitest";
import { METER } from "../../../services/billing/pricing/seed.ts";
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

/**
 * Reports what a customer used from the period's beginning until `at`, in hundredths of a cent, and waits until the meter
 * shows it, which takes Stripe a while.
 */
async function report(
  scenario: Scenario,
  { id: customer }: Customer,
  units: number,
  at: number,
): Promise<void> {
  const { stripe, prices } = scenario;
  await stripe.billing.meterEvents.create({
    event_name: METER,
    identifier: crypto.randomUUID(),
    timestamp: at,
    payload: { stripe_customer_id: customer, value: String(units) },
  });
  const meter = (await stripe.prices.retrieve(prices.compute)).recurring!.meter!;
  const minute = at - (at % 60);
  const shown = async () => {
    const around = { customer, start_time: minute, end_time: minute + 60 };
    const { data } = await stripe.billing.meters.listEventSummaries(meter, around);
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

const linesOf = (invoice: Stripe.Invoice, price: string) =>
  invoice.lines.data.filter(({ pricing }) => pricing?.price_details?.price === price);

/** Compute is metered, invoiced after its period, and paid from the plan's credit first. */
export function describeMetering(scenario: () => Scenario): void {
  test("compute is invoiced after its period, less the plan's credit", async () => {
    const { stripe, prices } = scenario();
    const { customer, subscription, start, end } = await subscribeWithCredit(scenario());
    await report(scenario(), customer, 200_000, start + 1);
    await customer.advanceTo(end + 60);
    const [draft] = await invoicesOf(stripe, subscription.id);
    expect(draft).toMatchObject({ status: "draft", billing_reason: "subscription_cycle" });
    // What is reported last counts, and may be reported until the invoice is final.
    await report(scenario(), customer, 150_000, end - 1);
    await customer.advanceTo(end + FINALIZED_SECONDS);
    const invoice = await stripe.invoices.retrieve(draft!.id);
    expect(linesOf(invoice, prices.compute)).toMatchObject([{ amount: 1_500, period: { start, end } }]);
    expect(invoice).toMatchObject({ status: "paid", subtotal: 3_500, total: 2_500, amount_paid: 2_500 });
  });

  // What Berth's cancelation rests on, and Stripe does not document.
  test("compute until a cancelation is invoiced at once, less the plan's credit, and waits to be paid", async () => {
    const { stripe, prices } = scenario();
    const { customer, subscription, start } = await subscribeWithCredit(scenario());
    await report(scenario(), customer, 150_000, start + 1);
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
    await report(scenario(), customer, 150_000, start + 1);
    await customer.advanceTo(end + FINALIZED_SECONDS);
    const [compute] = await invoicesOf(stripe, id);
    expect(compute).toMatchObject({ billing_reason: "subscription_cycle", subtotal: 1_500, total: 1_500 });
    expect((await stripe.subscriptions.retrieve(id)).discounts).toHaveLength(1);
  });
}
