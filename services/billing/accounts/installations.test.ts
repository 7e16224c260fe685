import { afterAll, beforeAll, expect, test } from "vitest";
import { metricsText } from "../../kit/telemetry.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { subscriber } from "../cancellation/testing.ts";
import { makePromo } from "../coupons/testing.ts";
import { closePeriods, dueCents, runFor } from "../metering/testing.ts";
import { subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { eventsCompared, webhookScene } from "../webhook/testing.ts";

/** Two installations share an account at Stripe: one of before, without a name, and a named one. */
let first: TestBilling;
let staging: TestBilling;
beforeAll(async () => {
  first = await startBilling();
  staging = await startBilling({ STRIPE_INSTALLATION: "staging" }, undefined, first.stripe);
});
afterAll(async () => {
  await staging?.stop();
  await first?.stop();
});

const count = async (of: TestBilling, text: string, values: unknown[] = []) =>
  (await of.pool.query(text, values)).rowCount;

test("each sells its own prices to its own customers, and records nothing of the other's", async () => {
  const { stripe, clock } = first.stripe;
  const one = await subscriber(first, { cadence: "monthly" });
  const other = await subscriber(staging, { cadence: "monthly" });
  const [ours, theirs] = [await one.atStripe(), await other.atStripe()];
  const keys = ({ items }: typeof ours) => items.data.map(({ price }) => price.lookup_key);
  expect(keys(ours)).toEqual(["plan_pro_monthly_2026-11", "compute_monthly_2026-11"]);
  expect(keys(theirs)).toEqual(keys(ours).map((key) => `${key}_staging`));
  expect([ours.metadata.installation, theirs.metadata.installation]).toEqual([undefined, "staging"]);
  // Also when all events are listed, as after lost webhooks.
  clock.advance(16 * 60);
  await Promise.all([eventsCompared(first), eventsCompared(staging)]);
  for (const [of, foreign] of [
    [first, other],
    [staging, one],
  ] as const) {
    await webhookScene(of).settled();
    expect(await count(of, "select from customers where customer_id = $1", [foreign.customer])).toBe(0);
    expect(await count(of, "select from subscriptions where id = $1", [foreign.id])).toBe(0);
  }
  // What says whose it is, is not even stored.
  const named = "select from stripe_events where type like 'customer.subscription.%' and customer_id = $1";
  expect(await count(first, named, [other.customer])).toBe(0);
  const passed = /^berth_stripe_webhooks_total{.*outcome="other_installation".*} (\d+)$/m.exec(
    await metricsText(),
  );
  expect(Number(passed?.[1])).toBeGreaterThan(0);
  const portals = (await stripe.billingPortal.configurations.list({ limit: 100 })).data;
  expect(portals.map(({ metadata }) => metadata?.berth).toSorted()).toEqual(["berth", "berth_staging"]);
});

test("compute is reported to the meter of its installation, and invoiced as what it is", async () => {
  const { clock, stripe } = first.stripe;
  const other = await subscriber(staging, { cadence: "monthly" });
  await runFor(staging, other.accountId, clock.now(), 20);
  const item = (await other.atStripe()).items.data.find(({ price }) => price.metadata.kind === "compute")!;
  clock.advance(item.current_period_end + 46 * 60 - clock.now());
  await closePeriods(staging, other.accountId, 1);
  clock.advance(20 * 60);
  const paid = await eventually("it is paid", async () => (await other.invoices())[0]?.status === "paid");
  expect(paid).toBe(true);
  const [invoice] = await other.invoices();
  expect(invoice!.amount_paid).toBe(2_000 + dueCents(20) - 1_000);
  const meters = (await stripe.billing.meters.list({ limit: 100 })).data;
  expect(meters.map(({ event_name }) => event_name).toSorted()).toEqual([
    "compute_usage",
    "compute_usage_staging",
  ]);
});

test("a promo code for the plans of one is for no plan of the other", async () => {
  await makePromo(first.stripe.stripe, "OURS");
  const accountId = staging.account();
  const redeem = staging.as(accountId).redeemCoupon({ accountId, code: "OURS" });
  await expect(redeem).rejects.toThrow(/plan/);
});

test("the customer of an account of the same id is not taken from the other: a copy of a database gets its own", async () => {
  const accountId = first.account();
  const owner = first.neighbours.accounts.get(accountId)!;
  staging.neighbours.accounts.set(accountId, owner);
  await subscribe(first, accountId);
  const { checkoutUrl } = await staging
    .as(accountId)
    .createSubscription({ accountId, tierId: "pro", cadence: "monthly" });
  expect(checkoutUrl).not.toBe("");
  const customers = (await first.stripe.stripe.customers.list({ limit: 100 })).data;
  const same = customers.filter(({ metadata }) => metadata.accountId === accountId);
  expect(same.map(({ metadata }) => metadata.installation).toSorted()).toEqual(["staging", undefined]);
});

test("an installation keeps its name: with another one it does not start, and says why", async () => {
  await expect(first.startOne({ STRIPE_INSTALLATION: "other" })).rejects.toThrow(
    "STRIPE_INSTALLATION must not be set",
  );
  await expect(staging.startOne({ STRIPE_INSTALLATION: "" })).rejects.toThrow(
    "STRIPE_INSTALLATION must be staging",
  );
  const again = await staging.startOne();
  await again.stop();
});
