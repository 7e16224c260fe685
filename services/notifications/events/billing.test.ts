import { afterAll, beforeAll, expect, test } from "vitest";
import * as billing from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { at, inShort, startTelling } from "./testing.ts";

type Telling = Awaited<ReturnType<typeof startTelling>>;

let service: Telling["service"];
let accountId: string;
let tell: Telling["tell"];

beforeAll(async () => {
  ({ service, accountId, tell } = await startTelling());
});
afterAll(() => service.stop());

const toOwners = (kind: string) => [`actor ${kind}`, `owner ${kind}`];

/** Changes of one subscription; each is told to the owners, once and by mail. */
function subscription(subscriptionId: string) {
  const about = { accountId, subscriptionId, tier: "pro", currentPeriodEnd: at(0) };
  return (formerStatus: string, status: string, cancelAtPeriodEnd = false) =>
    tell("billing", billing.SubscriptionChangedSchema, { ...about, formerStatus, status, cancelAtPeriodEnd });
}

test("a subscription that starts, is canceled and ends, each with what becomes of the plan", async () => {
  const change = subscription("sub_1");
  expect(await change("", "incomplete")).toEqual([]);
  const started = await change("incomplete", "active");
  expect(inShort(started)).toEqual(toOwners("billing.subscription_started"));
  expect(started[0].title).toMatch(/^h\w+ is on the pro plan$/);
  expect(started[0].mailState).not.toBe("none");
  expect(started[0].body).toContain(`/accounts/${accountId}/subscription`);
  const canceling = await change("active", "active", true);
  expect(inShort(canceling)).toEqual(toOwners("billing.subscription_canceling"));
  expect(canceling[0].title).toMatch(/^The pro plan of h\w+ ends on 20 November 2026$/);
  const ended = await change("active", "canceled", true);
  expect(inShort(ended)).toEqual(toOwners("billing.subscription_ended"));
  expect(ended[0].metadata).toMatchObject({ subscriptionId: "sub_1", tier: "pro" });
});

test("one that comes back after a failed payment has not started again; one that never began has not ended", async () => {
  const change = subscription("sub_2");
  expect(await change("", "active")).toHaveLength(2);
  expect(await change("active", "past_due")).toEqual([]);
  expect(await change("past_due", "active")).toEqual([]);
  expect(await subscription("sub_3")("incomplete", "incomplete_expired")).toEqual([]);
  expect(await subscription("sub_4")("", "canceled")).toEqual([]);
});

test("an invoice is told when it is paid, and when money was paid", async () => {
  const invoice = (status: string, totalCents: bigint) =>
    tell("billing", billing.InvoiceMirroredSchema, {
      accountId,
      invoiceId: "in_1",
      kind: "subscription",
      status,
      totalCents,
    });
  expect(await invoice("open", 100_000n)).toEqual([]);
  expect(await invoice("paid", 0n)).toEqual([]);
  const paid = await invoice("paid", 100_000n);
  expect(inShort(paid)).toEqual(toOwners("billing.invoice_paid"));
  expect(paid[0].title).toMatch(/^h\w+ paid \$1,000\.00$/);
});

test("a payment that fails is told with each attempt, and what to do", async () => {
  const failed = (nextAttemptAt?: ReturnType<typeof at>) =>
    tell("billing", billing.PaymentFailedSchema, {
      accountId,
      invoiceId: "in_2",
      totalCents: 2_050n,
      ...(nextAttemptAt && { nextAttemptAt }),
    });
  const first = await failed(at(0));
  expect(inShort(first)).toEqual(toOwners("billing.payment_failed"));
  expect(first[0].title).toMatch(/^A payment of \$20\.50 for h\w+ failed$/);
  expect(first[0].body).toContain("tries again on 20 November 2026");
  expect(first[0].body).toContain(`/accounts/${accountId}/billing-portal`);
  const last = await failed();
  expect(last[0].body).toContain("does not try again");
});

test("a refund is told when it waits, when it is made, and when it fails", async () => {
  for (const [status, kind] of [
    ["under_review", "billing.refund_under_review"],
    ["refunded", "billing.refund_issued"],
    ["failed", "billing.refund_failed"],
  ] as const) {
    const event = { accountId, subscriptionId: "sub_5", status, amountCents: 16_000n };
    const told = await tell("billing", billing.RefundChangedSchema, event);
    expect(inShort(told)).toEqual(toOwners(kind));
    expect(told[0].title).toContain("$160.00");
  }
});

test("compute that reaches a share of its budget is told once for the share and the period", async () => {
  const reached = (percent: number, periodStart = at(0)) =>
    tell("billing", billing.UsageThresholdSchema, {
      accountId,
      percent,
      periodStart,
      accruedNanoUsd: 9_000_000_000n,
      budgetNanoUsd: 10_000_000_000n,
    });
  const told = await reached(90);
  expect(inShort(told)).toEqual(toOwners("billing.usage_threshold"));
  expect(told[0].title).toMatch(/^h\w+ has used 90 % of its compute budget$/);
  expect(told[0].body).toContain("costs $9.00; its budget is $10.00");
  expect(await reached(100)).toHaveLength(2);
  expect(await reached(90, at(60))).toHaveLength(2);
  expect(await reached(90)).toEqual([]);
});

test("a saved promo code that could not be applied, with the reason, and without a link in its name", async () => {
  const event = { accountId, code: "www.EVIL", reason: "plan_restricted" };
  const told = await tell("billing", billing.CouponNotAppliedSchema, event);
  expect(inShort(told)).toEqual(toOwners("billing.coupon_not_applied"));
  expect(told[0].title).toBe("The promo code www. EVIL was not applied");
  expect(told[0].body).toContain("it is for another plan");
});
