import { afterAll, beforeAll, expect, test } from "vitest";
import { DisputeChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { metricsText } from "../../kit/telemetry.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { DAY, type Subscriber, subscriber } from "../cancellation/testing.ts";
import { setMembers } from "../seats/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { webhookScene } from "../webhook/testing.ts";

let billing: TestBilling;
let scene: ReturnType<typeof webhookScene>;
beforeAll(async () => {
  billing = await startBilling();
  scene = webhookScene(billing);
});
afterAll(() => billing?.stop());

const advance = (seconds: number) => billing.stripe.clock.advance(seconds);

/** Has the payer dispute the payment of an invoice at the bank: the first one, unless told otherwise. */
async function dispute(subscriber: Subscriber, more: object = {}, invoice?: string) {
  const { stripe } = billing.stripe;
  const id = invoice ?? (await subscriber.invoices()).at(-1)!.id;
  const { data } = await stripe.invoicePayments.list({ invoice: id });
  const payment = data[0]!.payment.payment_intent as string;
  const url = `${billing.stripe.url}/_sim/payments/${payment}/dispute`;
  const answer = await fetch(url, { method: "POST", body: JSON.stringify(more) });
  expect(answer.status).toBe(200);
  const { id: made } = (await answer.json()) as { id: string };
  return { id: made, payment };
}

/** Has the bank decide, as Stripe's test mode does by the evidence. */
const decide = (id: string, as: "winning" | "losing") =>
  billing.stripe.stripe.disputes.update(id, {
    evidence: { uncategorized_text: `${as}_evidence` },
    submit: true,
  });

/** Waits until this was reported of the account's disputes, and nothing else. */
const reported = (accountId: string, ...expected: string[]) =>
  eventually(`${expected.join(", ")} is reported`, async () => {
    const told = await billing.published(DisputeChangedSchema, accountId);
    return JSON.stringify(told.map(({ outcome }) => outcome)) === JSON.stringify(expected) && told;
  });

async function audited(accountId: string): Promise<string[]> {
  const all = await billing.published(AuditRecordedSchema, accountId);
  return all.map(({ action }) => action).filter((action) => action.startsWith("dispute."));
}

async function unanswered(): Promise<number> {
  const line = /^berth_stripe_disputes_unanswered(?:\{[^}]*\})? (\d+)$/m.exec(await metricsText());
  return Number(line?.[1]);
}

test("a year of which the payment is disputed is not refunded until the bank decides for the operator, and then once", async () => {
  const annual = await subscriber(billing);
  advance(20 * DAY);
  const { id } = await dispute(annual);
  const [opened] = await reported(annual.accountId, "open");
  expect(opened).toMatchObject({ disputeId: id, subscriptionId: annual.id, amountCents: 20_000n });
  expect(opened).toMatchObject({ reason: "fraudulent", endsPlan: false });
  await eventually("the operator is alerted", async () => (await unanswered()) === 1);
  expect((await annual.tiers()).at(-1)).toBe("pro");
  const preview = await annual.preview();
  const answer = await annual.cancel();
  for (const said of [preview, answer])
    expect([said.refund, said.refundUnderReview, said.underReviewUsd]).toEqual([undefined, true, 180]);
  await annual.told(["under_review", 18_000n]);
  await annual.isFree();
  expect([await annual.refunds(), await annual.step()]).toEqual([[], "disputed"]);
  await decide(id, "winning");
  await annual.told(["under_review", 18_000n], ["refunded", 18_000n]);
  expect(await annual.refunds()).toEqual([18_000]);
  await reported(annual.accountId, "open", "won");
  expect(await audited(annual.accountId)).toEqual(["dispute.open", "dispute.won"]);
  expect(await unanswered()).toBe(0);
});

test("what a bank returned of a canceled year is not refunded as well", async () => {
  const annual = await subscriber(billing);
  advance(20 * DAY);
  const { id } = await dispute(annual);
  await reported(annual.accountId, "open");
  await annual.cancel();
  await decide(id, "losing");
  const told = await reported(annual.accountId, "open", "lost");
  expect(told.at(-1)).toMatchObject({ endsPlan: false });
  await eventually("it is settled", async () => (await annual.step()) === "done");
  expect([await annual.refunds(), await annual.notes(), await annual.balance()]).toEqual([[], [], 0]);
});

test("of a payment of which a bank returned a part, the rest is credited to the balance, in proportion", async () => {
  const annual = await subscriber(billing);
  advance(20 * DAY);
  const { id } = await dispute(annual, { amount: 5_000 });
  await decide(id, "losing");
  await annual.isFree();
  await eventually("it is settled", async () => (await annual.step()) === "done");
  // Nine of ten tenths of the 150 dollars that are left.
  expect([await annual.refunds(), await annual.balance()]).toEqual([[], -13_500]);
});

test.each(["monthly", "annual"] as const)(
  "a lost dispute of a running plan (%s) ends it, once, and what followed is announced after it",
  async (cadence) => {
    const lost = await subscriber(billing, { cadence });
    advance(5 * DAY);
    const { id } = await dispute(lost);
    billing.stripe.webhooks.set({ duplicate: 100, reorder: 3 });
    await decide(id, "losing");
    await lost.isFree();
    billing.stripe.webhooks.set({ duplicate: 0, reorder: 0 });
    await billing.stripe.webhooks.flush();
    await scene.settled();
    const told = await billing.published(DisputeChangedSchema, lost.accountId);
    expect(told.at(-1)).toMatchObject({ outcome: "lost", endsPlan: true });
    expect(told.filter(({ outcome }) => outcome === "lost")).toHaveLength(1);
    expect((await lost.atStripe()).status).toBe("canceled");
    expect(await lost.refunds()).toEqual([]);
  },
);

test("a lost payment for a larger plan ends that plan", async () => {
  const lost = await subscriber(billing, { cadence: "monthly" });
  advance(5 * DAY);
  const { accountId } = lost;
  await billing.as(accountId).updateSubscription({ accountId, tierId: "team" });
  await eventually("it is the larger plan", async () => (await lost.tiers()).at(-1) === "team");
  const [upgrade] = await lost.invoices();
  const { id } = await dispute(lost, {}, upgrade!.id);
  await reported(accountId, "open");
  await decide(id, "losing");
  const told = await reported(accountId, "open", "lost");
  expect(told.at(-1)).toMatchObject({ invoiceId: upgrade!.id, endsPlan: true });
  await lost.isFree();
});

test("members that were paid apart are refunded when the plan's own payment is lost; a lost payment for members ends nothing", async () => {
  const annual = await subscriber(billing, { members: 3 });
  advance(300 * DAY);
  await setMembers(billing, annual.accountId, 13);
  const added = await eventually("ten members are charged", async () =>
    (await annual.invoices()).find(({ billing_reason }) => billing_reason === "subscription_update"),
  );
  const ofMembers = await dispute(annual, { amount: 1_000 }, added.id);
  await decide(ofMembers.id, "losing");
  const told = await eventually("it is reported", async () => {
    const all = await billing.published(DisputeChangedSchema, annual.accountId);
    return all.find(({ outcome }) => outcome === "lost");
  });
  expect(told.endsPlan).toBe(false);
  expect((await annual.atStripe()).status).toBe("active");
  const { id } = await dispute(annual);
  await decide(id, "losing");
  await annual.isFree();
  await eventually("it is settled", async () => (await annual.step()) === "done");
  const left = added.amount_paid - 1_000;
  const kept = Math.round((10_000 * left) / added.amount_paid);
  expect(await annual.refunds()).toEqual([]);
  expect(await annual.balance()).toBe(kept - left);
});

test("refunds wait for the last of several decisions, and an inquiry takes and holds nothing", async () => {
  const annual = await subscriber(billing, { members: 4 });
  advance(20 * DAY);
  const first = await dispute(annual, { amount: 10_000 });
  const second = await dispute(annual, { amount: 5_000, reason: "duplicate" });
  await reported(annual.accountId, "open", "open");
  await annual.cancel();
  await decide(first.id, "winning");
  await reported(annual.accountId, "open", "open", "won");
  await scene.settled();
  expect([await annual.refunds(), await annual.step()]).toEqual([[], "disputed"]);
  await decide(second.id, "winning");
  await eventually("it is refunded", async () => (await annual.refunds()).length > 0);
  expect(await annual.refunds()).toEqual([27_000]);
  const asked = await subscriber(billing);
  advance(20 * DAY);
  await dispute(asked, { inquiry: true });
  await eventually("it is recorded", async () =>
    (await audited(asked.accountId)).includes("dispute.inquiry"),
  );
  expect(await unanswered()).toBe(1);
  await asked.cancel();
  expect(await asked.refunds()).toEqual([18_000]);
  expect(await billing.published(DisputeChangedSchema, asked.accountId)).toEqual([]);
});

test("a dispute and a decision of which no webhook and no event arrived are found in the night", async () => {
  const annual = await subscriber(billing);
  advance(20 * DAY);
  await scene.settled();
  await billing.pool.query("update reconciliations set next_at = 'infinity' where name = 'events'");
  const { webhooks } = billing.stripe;
  webhooks.set({ drop: 1_000 });
  const { id } = await dispute(annual);
  webhooks.set({ drop: 0 });
  advance(DAY);
  await reported(annual.accountId, "open");
  webhooks.set({ drop: 1_000 });
  await decide(id, "winning");
  webhooks.set({ drop: 0 });
  advance(DAY);
  await reported(annual.accountId, "open", "won");
  await billing.pool.query("update reconciliations set next_at = '-infinity' where name = 'events'");
});

test("a key of before, which may not read disputes, cancels a year as it did; the log names the right that is missing", async () => {
  const annual = await subscriber(billing);
  advance(20 * DAY);
  await scene.settled();
  const { faults } = billing.stripe;
  faults.add({ kind: "forbid", method: "GET", path: "/v1/disputes", times: 1_000 });
  try {
    await annual.cancel();
    expect(await annual.refunds()).toEqual([18_000]);
    await eventually("the log says it", async () => billing.logLines.join("").includes("Disputes: read"));
  } finally {
    faults.clear();
  }
});

test("a dispute that is opened while a refund is interrupted holds it: the provider refuses it, and it waits for the bank", async () => {
  const annual = await subscriber(billing);
  advance(20 * DAY);
  await scene.settled();
  billing.stripe.faults.add({ kind: "refuse", method: "POST", path: "/v1/credit_notes", times: 2 });
  expect((await annual.cancel()).refundUnderReview).toBe(true);
  const { id } = await dispute(annual);
  await eventually("it waits for the bank", async () => {
    // Without the pauses after failures.
    await billing.pool.query("update cancellations set next_at = now() where next_at > now()");
    return (await annual.step()) === "disputed";
  });
  expect(await annual.refunds()).toEqual([]);
  await decide(id, "winning");
  await eventually("it is refunded", async () => (await annual.step()) === "done");
  expect(await annual.refunds()).toEqual([18_000]);
});
