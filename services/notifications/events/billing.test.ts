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
    ["denied", "billing.refund_denied"],
    ["failed", "billing.refund_failed"],
  ] as const) {
    const event = { accountId, subscriptionId: "sub_5", status, amountCents: 16_000n };
    const told = await tell("billing", billing.RefundChangedSchema, event);
    expect(inShort(told)).toEqual(toOwners(kind));
    expect(told[0].title).toContain("$160.00");
  }
});

test("each refund that fails is told, and how the money comes is asked", async () => {
  const failed = (refundId: string) =>
    tell("billing", billing.RefundChangedSchema, {
      accountId,
      subscriptionId: "sub_6",
      status: "failed",
      amountCents: 700n,
      refundId,
    });
  expect(inShort(await failed("re_1"))).toEqual(toOwners("billing.refund_failed"));
  expect(inShort(await failed("re_2"))).toEqual(toOwners("billing.refund_failed"));
  expect(await failed("re_2")).toEqual([]);
});

test("a payment that waits for its payer is told once, with where to confirm it", async () => {
  const event = { accountId, invoiceId: "in_3", totalCents: 2_000n };
  const told = await tell("billing", billing.PaymentActionRequiredSchema, event);
  expect(inShort(told)).toEqual(toOwners("billing.payment_action_required"));
  expect(told[0].title).toMatch(/^A payment of \$20\.00 for h\w+ needs your confirmation$/);
  expect(told[0].body).toContain(`hostedUrl in /accounts/${accountId}/subscription`);
  expect(told[0].metadata).toMatchObject({ invoiceId: "in_3" });
});

test("a card that expires soon is told once, and another one again", async () => {
  const expiring = (last4: string) =>
    tell("billing", billing.CardExpiringSchema, {
      accountId,
      subscriptionId: "sub_7",
      brand: "visa",
      last4,
      expMonth: 12,
      expYear: 2026,
    });
  const told = await expiring("4242");
  expect(inShort(told)).toEqual(toOwners("billing.card_expiring"));
  expect(told[0].title).toMatch(/^The card that pays for h\w+ expires at the end of December 2026$/);
  expect(told[0].body).toContain("visa card that ends in 4242");
  expect(await expiring("0341")).toHaveLength(2);
});

test("prices that are superseded are told with the day until which they hold", async () => {
  const told = await tell("billing", billing.PricesSupersededSchema, {
    accountId,
    subscriptionId: "sub_8",
    priceVersion: "2026-11",
    legacyUntil: at(0),
  });
  expect(inShort(told)).toEqual(toOwners("billing.price_change"));
  expect(told[0].title).toMatch(/^The prices that h\w+ pays hold until 20 November 2026$/);
});

test("the plan's credit that is used up is told in place of its last share", async () => {
  const reached = (percent: number, accruedNanoUsd: bigint) =>
    tell("billing", billing.UsageThresholdSchema, {
      accountId,
      percent,
      periodStart: at(120),
      accruedNanoUsd,
      budgetNanoUsd: 10_000_000_000n,
      creditNanoUsd: 10_000_000_000n,
    });
  expect(inShort(await reached(90, 9_000_000_000n))).toEqual(toOwners("billing.usage_threshold"));
  const told = await reached(100, 10_010_000_000n);
  expect(inShort(told)).toEqual(toOwners("billing.credit_exhausted"));
  expect(told[0].body).toContain("costs $10.01; the plan pays $10.00 of it");
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
