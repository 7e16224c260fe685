import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { advanceTo, closePeriods, dueCents, runFor } from "../metering/testing.ts";
import { setMembers } from "../seats/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import {
  cancelAsPreviewed,
  DAY,
  FAILS_LATER,
  pass as passIn,
  type Subscriber,
  subscriber,
} from "./testing.ts";

const CREDIT = 1_000;

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

const advance = (seconds: number) => billing.stripe.clock.advance(seconds);

const pass = (one: Subscriber, kind: "plan" | "compute", minutes: number) =>
  passIn(billing, one, kind, minutes);

const amounts = (all: { kind: string; amountUsd: number }[]) =>
  all.map(({ kind, amountUsd }) => [kind, Math.round(amountUsd * 100)]);

test("canceled while past due: plan and members are credited, compute that ran stays owed and is collected, also that of the running period", async () => {
  const failing = await subscriber(billing, { cadence: "monthly", members: 5, card: FAILS_LATER });
  await runFor(billing, failing.accountId, billing.stripe.clock.now(), 20);
  await pass(failing, "plan", 46);
  await closePeriods(billing, failing.accountId, 1);
  advance(20 * 60);
  await eventually("it is past due", async () => (await failing.atStripe()).status === "past_due");
  await runFor(billing, failing.accountId, billing.stripe.clock.now(), 3);
  const answer = await cancelAsPreviewed(failing);
  const [first, second] = [dueCents(20) - CREDIT, dueCents(3) - CREDIT];
  expect(amounts(answer.charges)).toEqual([
    ["compute", first],
    ["compute", second],
  ]);
  expect(amounts(answer.credits)).toEqual([["open_invoice", 4_000]]);
  expect(answer.netUsd).toBeCloseTo((first + second) / 100, 6);
  const open = (await failing.invoices()).filter(({ status }) => status === "open");
  expect(open.map(({ amount_remaining }) => amount_remaining)).toEqual([second, first]);
  const { stripe } = billing.stripe;
  const good = await stripe.paymentMethods.attach("pm_card_visa", { customer: failing.customer });
  for (const { id } of open) await stripe.invoices.pay(id, { payment_method: good.id });
  expect(await failing.refunds()).toEqual([]);
  await failing.isFree();
});

test("a year that is past due for its compute gives back what was paid for the rest of the year", async () => {
  const failing = await subscriber(billing, { card: FAILS_LATER });
  await runFor(billing, failing.accountId, billing.stripe.clock.now(), 20);
  await pass(failing, "compute", 46);
  await closePeriods(billing, failing.accountId, 1);
  advance(DAY);
  await eventually("it is past due", async () => (await failing.atStripe()).status === "past_due");
  const answer = await cancelAsPreviewed(failing);
  // In the second month.
  expect(answer.refund?.amountUsd).toBe(160);
  expect(amounts(answer.charges)).toEqual([["compute", dueCents(20) - CREDIT]]);
  expect(await failing.refunds()).toEqual([16_000]);
});

test("in the hour after a renewal the draft is dropped: nothing is charged, and the preview says so", async () => {
  const annual = await subscriber(billing, { members: 4 });
  await pass(annual, "plan", 10);
  const answer = await cancelAsPreviewed(annual);
  expect(amounts(answer.credits)).toEqual([["renewal", 30_000]]);
  expect([answer.charges, answer.refund, answer.netUsd]).toEqual([[], undefined, 0]);
  advance(3 * 3_600);
  const all = await annual.invoices();
  const drafts = all.filter(({ status }) => status === "draft");
  expect(drafts).toMatchObject([{ auto_advance: false, total: 30_000 }]);
  const charged = all.filter(({ amount_paid }) => amount_paid > 0);
  expect(charged.map(({ amount_paid }) => amount_paid)).toEqual([30_000]);
  expect(await annual.refunds()).toEqual([]);
});

test("of a renewal's draft the compute of the past month is charged, with the plan's credit, and nothing else", async () => {
  const annual = await subscriber(billing);
  await advanceTo(billing, annual.accountId, 340);
  await runFor(billing, annual.accountId, billing.stripe.clock.now(), 5);
  await pass(annual, "plan", 10);
  const answer = await cancelAsPreviewed(annual);
  const compute = dueCents(5) - CREDIT;
  expect(amounts(answer.credits)).toEqual([["renewal", 20_000]]);
  expect(amounts(answer.charges)).toEqual([["compute", compute]]);
  const charged = (await annual.invoices()).filter(({ amount_paid }) => amount_paid > 0);
  expect(charged.map(({ amount_paid }) => amount_paid)).toEqual([compute, 20_000]);
  expect(await annual.refunds()).toEqual([]);
});

test("of two months of compute, the credit of both pays the invoice that is made final first, as the preview says", async () => {
  const annual = await subscriber(billing);
  const compute = (await annual.atStripe()).items.data.find(
    ({ price }) => price.metadata.kind === "compute",
  )!;
  await pass(annual, "compute", -10);
  // Ten minutes before the end of the month, and ten after it.
  await runFor(billing, annual.accountId, compute.current_period_end - 600, 1_200 / DAY, 2_000);
  const answer = await cancelAsPreviewed(annual);
  // A second of 2,000 replicas costs 4.8 cents, of which the allowance pays nearly nothing.
  const ran = 2_880;
  expect(amounts(answer.charges)).toEqual([
    ["compute", ran],
    ["compute", ran - 2 * CREDIT],
  ]);
});

test("of a renewal's draft that is final when its collection is interrupted, the compute is charged when it resumes", async () => {
  const annual = await subscriber(billing);
  await advanceTo(billing, annual.accountId, 340);
  await runFor(billing, annual.accountId, billing.stripe.clock.now(), 5);
  await pass(annual, "plan", 10);
  const { faults } = billing.stripe;
  faults.add({ kind: "refuse", method: "POST", path: "/v1/invoices/*/pay", times: 2 });
  await annual.cancel();
  expect(faults.pending()).toEqual([]);
  await eventually("it is settled", async () => (await annual.step()) === "done");
  const paid = (await annual.invoices()).filter(({ amount_paid }) => amount_paid > 0);
  expect(paid.map(({ amount_paid }) => amount_paid)).toEqual([dueCents(5) - CREDIT, 20_000]);
  expect(await annual.refunds()).toEqual([]);
});

test("members of a year keep the regular monthly price of the months that began", async () => {
  const annual = await subscriber(billing, { members: 3 });
  advance(300 * DAY);
  await setMembers(billing, annual.accountId, 13);
  const added = await eventually("ten members are charged", async () =>
    (await annual.invoices()).find(({ billing_reason }) => billing_reason === "subscription_update"),
  );
  advance(3 * DAY);
  const answer = await cancelAsPreviewed(annual);
  expect(Math.round(answer.refund!.amountUsd * 100)).toBe(added.amount_paid - 10_000);
  expect(await annual.refunds()).toEqual([added.amount_paid - 10_000]);
});

test("of a year with more than a hundred invoices, all are refunded", async () => {
  const annual = await subscriber(billing, { members: 4 });
  advance(20 * DAY);
  const { stripe, webhooks } = billing.stripe;
  const seat = (await annual.atStripe()).items.data.find(({ price }) => price.metadata.kind === "seat")!;
  webhooks.set({ drop: 10_000 });
  for (let quantity = 2; quantity <= 102; quantity++)
    await stripe.subscriptionItems.update(seat.id, { quantity, proration_behavior: "always_invoice" });
  webhooks.set({ drop: 0 });
  const paid = await stripe.invoices
    .list({ customer: annual.customer, limit: 100 })
    .autoPagingToArray({ limit: 1_000 });
  const ofSeats = paid.filter(({ billing_reason }) => billing_reason === "subscription_update");
  expect(ofSeats).toHaveLength(101);
  // A month of the plan and of each member is kept.
  const kept = 2_000 + 102 * 1_000;
  const expected = paid.reduce((sum, { amount_paid }) => sum + amount_paid, 0) - kept;
  const preview = await annual.preview();
  expect(Math.round(preview.refund!.amountUsd * 100)).toBe(expected);
});

test("a usage report that the provider refuses does not keep a year from ending, and the answer says what is wrong", async () => {
  const annual = await subscriber(billing);
  advance(20 * DAY);
  const { stripe } = billing.stripe;
  const [meter] = (await stripe.billing.meters.list({ status: "active" })).data;
  await stripe.billing.meters.deactivate(meter!.id);
  try {
    const answer = await annual.cancel();
    expect(answer.refund?.amountUsd).toBe(180);
    expect(answer.warnings).toEqual([
      expect.stringMatching(/refused the last report of compute \(no_meter\)/),
    ]);
    expect(billing.logLines.join("")).toContain("refused the last report of compute");
  } finally {
    await stripe.billing.meters.reactivate(meter!.id);
  }
});

test("a clock that is ahead of the provider's does not keep a year from ending: its compute is charged by the provider's", async () => {
  const found: { billing?: TestBilling } = {};
  const ahead = () => (found.billing?.stripe.clock.now() ?? Date.now() / 1_000) * 1_000 + 600_000;
  const skewed = await startBilling({}, ahead);
  found.billing = skewed;
  try {
    const annual = await subscriber(skewed);
    await runFor(skewed, annual.accountId, skewed.stripe.clock.now(), 5);
    skewed.stripe.clock.advance(15 * DAY);
    const answer = await cancelAsPreviewed(annual);
    expect(answer.refund?.amountUsd).toBe(180);
    expect(answer.warnings).toEqual([]);
    expect(amounts(answer.charges)).toEqual([["compute", dueCents(5) - CREDIT]]);
  } finally {
    await skewed.stop();
  }
});
