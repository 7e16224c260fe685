import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { PaymentFailedSchema, RefundChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { sample } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { dueCents, runFor } from "../metering/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { DAY, subscriber } from "./testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterEach(() => billing.stripe.faults.clear());
afterAll(() => billing?.stop());

const NOTES = { method: "POST", path: "/v1/credit_notes" };
const CANCEL = { method: "DELETE", path: "/v1/subscriptions/*" };
const READ = { method: "GET", path: "/v1/subscriptions/*" };
const UNAVAILABLE = "502 payment_provider_unavailable";

async function subscribed(choice = {}) {
  const made = await subscriber(billing, choice);
  billing.stripe.clock.advance(20 * DAY);
  return made;
}

test.each(sample("failures of ending at the provider", ["refuse", "error", "rate_limit"] as const, 1))(
  "an end that the provider did not do (%s) is answered 502, changes nothing, and can be asked for again",
  async (kind) => {
    const annual = await subscribed();
    // The SDK itself repeats a request whose connection was closed.
    billing.stripe.faults.add({ kind, ...CANCEL, times: kind === "refuse" ? 2 : 1 });
    expect(await refused(annual.cancel())).toBe(UNAVAILABLE);
    expect((await annual.atStripe()).status).toBe("active");
    expect((await annual.cancel()).refund?.amountUsd).toBe(180);
    expect(await annual.refunds()).toEqual([18_000]);
  },
);

test("an end whose answer was lost is learnt from the provider", async () => {
  const annual = await subscribed();
  billing.stripe.faults.add({ kind: "lose_answer", ...CANCEL });
  expect((await annual.cancel()).refund?.amountUsd).toBe(180);
  expect(await annual.refunds()).toEqual([18_000]);
});

test("an end of which nothing can be learnt is answered 502; it is found out later, and what is due is refunded", async () => {
  const annual = await subscribed();
  const { faults, stripe } = billing.stripe;
  faults.add({ kind: "timeout", ...CANCEL });
  const canceling = refused(annual.cancel());
  await eventually("the provider is asked", async () => faults.pending().length === 0);
  faults.add({ kind: "refuse", ...READ, times: 1_000 });
  await stripe.subscriptions.cancel(annual.id);
  expect(await canceling).toBe(UNAVAILABLE);
  expect(await annual.refunds()).toEqual([]);
  faults.clear();
  await eventually("it is refunded", async () => (await annual.step()) === "done");
  expect(await annual.refunds()).toEqual([18_000]);
  await annual.told(["refunded", 18_000n]);
});

test("a monthly one: an answer that was lost is learnt, a refusal changes nothing", async () => {
  const monthly = await subscribed({ cadence: "monthly" });
  const change = { method: "POST", path: `/v1/subscriptions/${monthly.id}` };
  billing.stripe.faults.add({ kind: "refuse", ...change, times: 2 });
  expect(await refused(monthly.cancel())).toBe(UNAVAILABLE);
  billing.stripe.faults.clear();
  expect((await monthly.atStripe()).cancel_at_period_end).toBe(false);
  billing.stripe.faults.add({ kind: "lose_answer", ...change, times: 2 });
  expect((await monthly.cancel()).accessUntil).not.toBe("now");
  expect((await monthly.atStripe()).cancel_at_period_end).toBe(true);
});

test("a monthly one whose last charges the provider does not preview is canceled all the same, and the answer says so", async () => {
  const monthly = await subscribed({ cadence: "monthly" });
  billing.stripe.faults.add({
    kind: "forbid",
    method: "POST",
    path: "/v1/invoices/create_preview",
    times: 2,
  });
  expect(await refused(monthly.preview())).toBe(UNAVAILABLE);
  const answer = await monthly.cancel();
  expect(answer).toMatchObject({ status: "canceled", charges: [], credits: [] });
  expect(answer.warnings).toEqual([expect.stringContaining("What is still charged is not known")]);
  expect((await monthly.atStripe()).cancel_at_period_end).toBe(true);
});

test.each(sample("failures of refunding", ["refuse", "error", "rate_limit", "lose_answer"] as const, 1))(
  "a refund that the provider does not answer (%s) is under review, tried again, and made once",
  async (kind) => {
    const annual = await subscribed();
    billing.stripe.faults.add({ kind, ...NOTES, times: 2 });
    const canceled = await annual.cancel();
    expect(canceled).toMatchObject({ status: "canceled", accessUntil: "now", refundUnderReview: true });
    expect(canceled.refund).toBeUndefined();
    billing.stripe.faults.clear();
    await eventually("it is refunded", async () => (await annual.step()) === "done");
    expect(await annual.refunds()).toEqual([18_000]);
    expect(await annual.notes()).toHaveLength(1);
    await annual.told(["under_review", 18_000n], ["refunded", 18_000n]);
  },
);

test("what staff gave back while a refund waited is not given back again", async () => {
  const annual = await subscribed();
  const { faults, stripe } = billing.stripe;
  faults.add({ kind: "refuse", ...NOTES, times: 2 });
  await annual.cancel();
  const invoice = (await annual.invoices()).at(-1);
  const paid = await stripe.invoices.retrieve(invoice!.id, { expand: ["payments"] });
  await stripe.refunds.create({
    payment_intent: paid.payments!.data[0]!.payment.payment_intent as string,
    amount: 10_000,
  });
  await eventually("it is refunded", async () => (await annual.step()) === "done");
  // Nine tenths of the $100 that were left.
  expect((await annual.refunds()).toSorted()).toEqual([10_000, 9_000]);
});

test("of two refunds the second is planned again: the first, of which the record was lost, stays as it was made", async () => {
  const annual = await subscribed();
  const { stripe } = billing.stripe;
  await annual.owner.updateSubscription({ accountId: annual.accountId, tierId: "team" });
  billing.stripe.clock.advance(20 * DAY);
  const held = await holdCommits(billing, "update", "refunds", "new.credit_note_id is not null");
  const canceled = annual.cancel();
  await held.reached();
  const [first] = await annual.notes();
  const other = (await annual.invoices()).find(
    ({ id, amount_paid }) => id !== first!.invoice && amount_paid > 0,
  );
  const { payments } = await stripe.invoices.retrieve(other!.id, { expand: ["payments"] });
  await stripe.refunds.create({
    payment_intent: payments!.data[0]!.payment.payment_intent as string,
    amount: other!.amount_paid - 500,
  });
  await held.release("lost");
  expect(await canceled).toMatchObject({ status: "canceled", refundUnderReview: true });
  await eventually("it is refunded", async () => (await annual.step()) === "done");
  const notes = await annual.notes();
  expect(new Set(notes.map(({ invoice }) => invoice)).size).toBe(2);
  expect(notes).toHaveLength(2);
  const total = notes.reduce((sum, note) => sum + note.total, 0);
  // Of the $5 that staff left, what is unused.
  expect(total).toBeGreaterThan(first!.total);
  expect(total).toBeLessThanOrEqual(first!.total + 500);
  await eventually("what was refunded is reported", async () => {
    const told = await billing.published(RefundChangedSchema, annual.accountId);
    return told.at(-1)?.status === "refunded" && told.at(-1)!.amountCents === BigInt(total);
  });
});

test("the last invoice that is declined stays open and is tried again, which owners are told, and the refund is made", async () => {
  const annual = await subscribed();
  const { stripe } = billing.stripe;
  const card = await stripe.paymentMethods.attach("pm_card_chargeCustomerFail", {
    customer: annual.customer,
  });
  await stripe.customers.update(annual.customer, { invoice_settings: { default_payment_method: card.id } });
  await stripe.subscriptions.update(annual.id, { default_payment_method: card.id });
  await runFor(billing, annual.accountId, billing.stripe.clock.now(), 5);
  expect((await annual.cancel()).refund?.amountUsd).toBe(180);
  const open = (await annual.invoices()).filter(({ status }) => status === "open");
  expect(open.map(({ amount_due }) => amount_due)).toEqual([dueCents(5) - 1_000]);
  const [told] = await eventually("the failed payment is reported", async () => {
    const found = await billing.published(PaymentFailedSchema, annual.accountId);
    return found.length > 0 && found;
  });
  expect(told).toMatchObject({ invoiceId: open[0]!.id });
  expect(Number(told!.nextAttemptAt?.seconds)).toBeGreaterThan(billing.stripe.clock.now());
  const good = await stripe.paymentMethods.attach("pm_card_visa", { customer: annual.customer });
  await stripe.invoices.pay(open[0]!.id, { payment_method: good.id });
});

test("the reports of an end that come doubled, in any order and beside it change nothing twice", async () => {
  const annual = await subscribed();
  billing.stripe.webhooks.set({ duplicate: 100, reorder: 100 });
  const other = await billing.startOne();
  await annual.cancel();
  await billing.stripe.webhooks.flush();
  await annual.isFree();
  billing.stripe.webhooks.set({ duplicate: 0, reorder: 0 });
  await other.stop();
  expect(await annual.refunds()).toEqual([18_000]);
  await annual.told(["refunded", 18_000n]);
});
