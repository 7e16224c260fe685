import { afterAll, beforeAll, expect, test } from "vitest";
import { RefundChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { DAY, subscriber } from "../cancellation/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { eventOf, webhookScene } from "../webhook/testing.ts";

let billing: TestBilling;
let scene: ReturnType<typeof webhookScene>;
beforeAll(async () => {
  billing = await startBilling();
  scene = webhookScene(billing);
});
afterAll(() => billing?.stop());

/** Lets the bank take a refund back. */
async function fail(refund: string): Promise<void> {
  const answer = await fetch(`${billing.stripe.url}/_sim/refunds/${refund}/fail`, { method: "POST" });
  expect(answer.status).toBe(200);
}

async function refundsOf(customer: string) {
  const { data } = await billing.stripe.stripe.refunds.list({ limit: 100 });
  return data.filter((refund) => refund.customer === customer);
}

test("a refund that the bank fails after days is reported once, however often it is told, and not made again", async () => {
  const annual = await subscriber(billing);
  billing.stripe.clock.advance(20 * DAY);
  await annual.cancel();
  await annual.told(["refunded", 18_000n]);
  const [refund] = await refundsOf(annual.customer);
  billing.stripe.clock.advance(5 * DAY);
  billing.stripe.webhooks.set({ duplicate: 100 });
  await fail(refund!.id);
  await annual.told(["refunded", 18_000n], ["failed", 18_000n]);
  const told = await billing.published(RefundChangedSchema, annual.accountId);
  expect(told.at(-1)).toMatchObject({ subscriptionId: annual.id, refundId: refund!.id });
  billing.stripe.webhooks.set({ duplicate: 0 });
  await billing.stripe.webhooks.flush();
  await scene.settled();
  await annual.told(["refunded", 18_000n], ["failed", 18_000n]);
  expect(await annual.notes()).toHaveLength(1);
  expect(await annual.refunds()).toEqual([18_000]);
});

test("a refund that staff made, and that fails while webhooks are lost, is found by the reconciler", async () => {
  const monthly = await subscriber(billing, { cadence: "monthly" });
  const { stripe, clock, webhooks } = billing.stripe;
  const [invoice] = await monthly.invoices();
  const { data } = await stripe.invoicePayments.list({ invoice: invoice!.id });
  const made = await stripe.refunds.create({
    payment_intent: data[0]!.payment.payment_intent as string,
    amount: 700,
  });
  await scene.settled();
  webhooks.set({ drop: 1_000 });
  await fail(made.id);
  webhooks.set({ drop: 0 });
  clock.advance(16 * 60);
  await monthly.told(["failed", 700n]);
});

test("a dispute names no customer: the one whose payment it is about is read", async () => {
  const monthly = await subscriber(billing, { cadence: "monthly" });
  const { stripe, webhooks } = billing.stripe;
  const [invoice] = await monthly.invoices();
  const { data } = await stripe.invoicePayments.list({ invoice: invoice!.id });
  await scene.settled();
  webhooks.set({ drop: 1_000 });
  await stripe.subscriptions.update(monthly.id, { cancel_at_period_end: true });
  webhooks.set({ drop: 0 });
  const dispute = { object: "dispute", id: "du_1", payment_intent: data[0]!.payment.payment_intent };
  await scene.send(eventOf(dispute, { type: "charge.dispute.created" }));
  await eventually("the customer is read", async () => {
    const { accountId } = monthly;
    return (await monthly.owner.getSubscription({ accountId })).cancelAtPeriodEnd;
  });
});

test("a refund of a payment for something else, or of another installation, changes nothing", async () => {
  const refund = { object: "refund", id: "re_1", customer: "cus_other", payment_intent: "pi_other" };
  await scene.send(eventOf(refund, { type: "refund.failed" }));
  await scene.settled();
  const { rows } = await billing.pool.query("select from failed_refunds where id = 're_1'");
  expect(rows).toEqual([]);
});
