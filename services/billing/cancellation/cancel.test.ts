import { afterAll, beforeAll, expect, test } from "vitest";
import { SubscriptionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { makePromo } from "../coupons/testing.ts";
import { dueCents, runFor } from "../metering/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { eventsCompared } from "../webhook/testing.ts";
import { DAY, subscriber } from "./testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

const advance = (days: number) => billing.stripe.clock.advance(days * DAY);

test("a monthly subscription ends with its period, without a refund; canceling it again is refused", async () => {
  const monthly = await subscriber(billing, { cadence: "monthly" });
  const { items } = await monthly.atStripe();
  const end = new Date(items.data[0]!.current_period_end * 1_000).toISOString().replace(".000Z", "Z");
  expect(await monthly.preview()).toMatchObject({ accessUntil: end, refundUnderReview: false });
  const canceled = await monthly.cancel();
  expect(canceled).toMatchObject({ status: "canceled", accessUntil: end, refundUnderReview: false });
  expect(canceled.refund).toBeUndefined();
  expect(await refused(monthly.cancel())).toBe("409 subscription_canceling");
  expect(await refused(monthly.preview())).toBe("409 subscription_canceling");
  const shown = await monthly.owner.getSubscription({ accountId: monthly.accountId });
  expect(shown).toMatchObject({ status: "active", cancelAtPeriodEnd: true });
  await eventually("the owner can be told", async () => {
    const told = await billing.published(SubscriptionChangedSchema, monthly.accountId);
    return told.filter(({ cancelAtPeriodEnd }) => cancelAtPeriodEnd).length === 1;
  });
  advance(32);
  await monthly.isFree();
  expect(await refused(monthly.cancel())).toBe("404 subscription_not_found");
  expect(await monthly.refunds()).toEqual([]);
});

test("an annual subscription ends now and what the monthly price leaves is refunded; the plan follows by webhook", async () => {
  const annual = await subscriber(billing, { members: 5 });
  advance(70);
  await eventually("compute was invoiced", async () => (await annual.invoices()).length > 1);
  // In the third month: plan and two more members for $400.
  expect(await annual.preview()).toMatchObject({
    accessUntil: "now",
    refund: { amountUsd: 280, currency: "usd", estimatedArrivalDays: 10 },
    refundUnderReview: false,
  });
  expect((await annual.atStripe()).status).toBe("active");
  const canceled = await annual.cancel();
  expect(canceled).toMatchObject({
    status: "canceled",
    accessUntil: "now",
    refund: { amountUsd: 280, currency: "usd", estimatedArrivalDays: 10 },
    refundUnderReview: false,
  });
  expect((await annual.atStripe()).status).toBe("canceled");
  expect(await annual.refunds()).toEqual([28_000]);
  await annual.isFree();
  expect(await refused(annual.cancel())).toBe("404 subscription_not_found");
  await annual.told(["refunded", 28_000n]);
});

test("the plan stays until the provider reports the end, and canceling meanwhile is refused", async () => {
  const annual = await subscriber(billing);
  advance(20);
  await eventsCompared(billing);
  billing.deliverTo(undefined);
  await annual.cancel();
  expect(await refused(annual.cancel())).toBe("409 subscription_canceling");
  expect(await refused(annual.preview())).toBe("409 subscription_canceling");
  expect(await annual.tiers()).toEqual(["pro"]);
  billing.deliverTo(billing.port);
  await billing.stripe.webhooks.flush();
  await annual.isFree();
});

test("the refund of a subscription in its first 14 days waits for staff", async () => {
  const young = await subscriber(billing);
  advance(13);
  expect(await young.preview()).toMatchObject({ accessUntil: "now", refundUnderReview: true });
  const canceled = await young.cancel();
  expect(canceled).toMatchObject({ status: "canceled", accessUntil: "now", refundUnderReview: true });
  expect(canceled.refund).toBeUndefined();
  expect((await young.atStripe()).status).toBe("canceled");
  expect(await young.refunds()).toEqual([]);
  await young.told(["under_review", 18_000n]);
});

test("from the tenth month on nothing is left to refund", async () => {
  const old = await subscriber(billing);
  advance(280);
  expect(await old.preview()).toMatchObject({ accessUntil: "now", refundUnderReview: false });
  const canceled = await old.cancel();
  expect(canceled.refund).toBeUndefined();
  expect(canceled.refundUnderReview).toBe(false);
  expect(await old.notes()).toEqual([]);
});

test("what was paid from the balance goes back to the balance", async () => {
  const first = await subscriber(billing, { cadence: "monthly" });
  const { stripe } = billing.stripe;
  await stripe.customers.update(first.customer, { balance: -15_000 });
  await first.cancel();
  advance(32);
  await first.isFree();
  const { checkoutUrl } = await first.owner.createSubscription({
    accountId: first.accountId,
    tierId: "pro",
    cadence: "annual",
  });
  await billing.pay(checkoutUrl);
  await eventually("it is annual", async () => {
    const found = await first.owner.getSubscription({ accountId: first.accountId }).catch(() => undefined);
    return found?.cadence === "annual" && found.invoices[0]?.status === "paid";
  });
  advance(20);
  const canceled = await first.cancel();
  // $50 of $200 were paid by card; $180 are given back.
  expect(canceled.refund).toMatchObject({ amountUsd: 50 });
  expect(await first.balance()).toBe(-13_000);
});

test("what staff gave back before is not given back again", async () => {
  const annual = await subscriber(billing);
  const { stripe } = billing.stripe;
  const [invoice] = await annual.invoices();
  await stripe.creditNotes.create({
    invoice: invoice!.id,
    lines: [{ type: "invoice_line_item", invoice_line_item: invoice!.lines.data[0]!.id, amount: 5_000 }],
    refund_amount: 5_000,
  });
  const paid = await stripe.invoices.retrieve(invoice!.id, { expand: ["payments"] });
  const payment_intent = paid.payments!.data[0]!.payment.payment_intent as string;
  await stripe.refunds.create({ payment_intent, amount: 3_000 });
  advance(20);
  await eventually("it is recorded", async () => (await annual.preview()).refund?.amountUsd === 108);
  // Nine tenths of $200 - $50 - $30.
  expect((await annual.cancel()).refund?.amountUsd).toBe(108);
  expect((await annual.refunds()).toSorted((a, b) => a - b)).toEqual([3_000, 5_000, 10_800]);
});

test("the discount of a coupon is not refunded", async () => {
  const code = "HALFAYEAR";
  await makePromo(billing.stripe.stripe, code, { coupon: { percent_off: 50 } });
  const discounted = await subscriber(billing, { code });
  advance(40);
  // Eight tenths of $100.
  expect((await discounted.preview()).refund?.amountUsd).toBe(80);
  expect((await discounted.cancel()).refund?.amountUsd).toBe(80);
});

test("an unpaid subscription ends now: nothing is owed, and nothing refunded", async () => {
  const failing = await subscriber(billing, { cadence: "monthly", card: "4000000000000341" });
  advance(32);
  await eventually("it is past due", async () => {
    const found = await failing.owner.getSubscription({ accountId: failing.accountId });
    return found.status === "past_due";
  });
  expect(await failing.preview()).toMatchObject({ accessUntil: "now", refundUnderReview: false });
  const canceled = await failing.cancel();
  expect(canceled).toMatchObject({ accessUntil: "now", refundUnderReview: false });
  expect(canceled.refund).toBeUndefined();
  expect((await failing.invoices()).map(({ status }) => status)).not.toContain("open");
  await failing.isFree();
});

test("compute that was used until the end is invoiced and paid", async () => {
  const annual = await subscriber(billing);
  await runFor(billing, annual.accountId, billing.stripe.clock.now(), 5);
  advance(15);
  await annual.cancel();
  const compute = (await annual.invoices()).filter(({ amount_due }) => amount_due === dueCents(5) - 1_000);
  expect(compute).toMatchObject([{ status: "paid", amount_paid: dueCents(5) - 1_000 }]);
  expect(await annual.refunds()).toEqual([18_000]);
});

test("two owners cancel at once: one is answered, the other refused, and one refund is made", async () => {
  for (const cadence of ["annual", "monthly"] as const) {
    const shared = await subscriber(billing, { cadence });
    advance(20);
    const answers = await Promise.all(
      [1, 2, 3].map(() =>
        shared.cancel().then(
          () => "canceled",
          () => "refused",
        ),
      ),
    );
    expect(answers.toSorted()).toEqual(["canceled", "refused", "refused"]);
    expect(await shared.refunds()).toEqual(cadence === "annual" ? [18_000] : []);
  }
});

test("an account without a subscription has nothing to cancel", async () => {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  expect(await refused(owner.cancelSubscription({ accountId }))).toBe("404 subscription_not_found");
  expect(await refused(owner.previewCancellation({ accountId }))).toBe("404 subscription_not_found");
});

test("one that ended at the provider, of which no report came, is not there to cancel", async () => {
  const annual = await subscriber(billing);
  await eventsCompared(billing);
  billing.deliverTo(undefined);
  await billing.stripe.stripe.subscriptions.cancel(annual.id);
  expect(await refused(annual.cancel())).toBe("404 subscription_not_found");
  billing.deliverTo(billing.port);
  await annual.isFree();
  expect(await annual.refunds()).toEqual([]);
});
