import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import * as billing from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { at, startWithMembers, summaryOf } from "../testing.ts";

type Scene = Awaited<ReturnType<typeof startWithMembers>>;

let service: Scene["service"];
let accountId: string;
let publish: Scene["publish"];

beforeAll(async () => {
  ({ service, accountId, publish } = await startWithMembers());
});
afterAll(() => service.stop());

const toOwners = (kind: string) => [`actor ${kind}`, `owner ${kind}`];

/** Changes of one subscription; each notifies the owners, once and by mail. */
function subscription(subscriptionId: string) {
  const price = { cadence: "monthly", renewalCents: 4_000n, additionalMembers: 2, promoCode: "HALF" };
  const about = { accountId, subscriptionId, tier: "pro", currentPeriodEnd: at(0), ...price };
  return (formerStatus: string, status: string, cancelAtPeriodEnd = false) =>
    publish("billing", billing.SubscriptionChangedSchema, {
      ...about,
      formerStatus,
      status,
      cancelAtPeriodEnd,
    });
}

test("a subscription that starts, is canceled and ends, each with the resulting plan", async () => {
  const change = subscription("sub_1");
  expect(await change("", "incomplete")).toEqual([]);
  const started = await change("incomplete", "active");
  expect(summaryOf(started)).toEqual(toOwners("billing.subscription_started"));
  expect(started[0].title).toMatch(/^h\w+ is on the pro plan$/);
  expect(started[0].mailState).not.toBe("none");
  expect(started[0].body).toBe(
    "It costs $40.00 a month for the pro plan with 2 additional members, less the discount of the promo code HALF. " +
      "The next payment is due on 20 November 2026, and then monthly until you cancel. " +
      "Compute is charged monthly, for what ran, as far as the plan does not include it. " +
      "You can cancel at any time on the billing page: the plan then continues until the end of the month that is paid.",
  );
  const canceling = await change("active", "active", true);
  expect(summaryOf(canceling)).toEqual(toOwners("billing.subscription_canceling"));
  expect(canceling[0].title).toMatch(/^The pro plan of h\w+ ends on 20 November 2026$/);
  expect(canceling[0].body).toContain("there is no further payment for the plan");
  const ended = await change("active", "canceled", true);
  expect(summaryOf(ended)).toEqual(toOwners("billing.subscription_ended"));
  expect(ended[0].metadata).toMatchObject({ subscriptionId: "sub_1", tier: "pro" });
});

test("a change of the plan says what it costs and when, and one that is made again is announced again", async () => {
  const about = { accountId, subscriptionId: "sub_11", status: "active", formerStatus: "active" };
  const now = { tier: "team", cadence: "monthly", renewalCents: 10_000n, currentPeriodEnd: at(0) };
  const publishChange = (id: string, change: string, more = {}) =>
    publish("billing", billing.SubscriptionChangedSchema, { ...about, ...now, id, change, ...more });
  const former = { formerTier: "pro", formerCadence: "monthly" };
  const changed = await publishChange("sch_1", "plan_changed", former);
  expect(summaryOf(changed)).toEqual(toOwners("billing.plan_changed"));
  expect(changed[0].title).toMatch(/^h\w+ is now on the team plan, paid monthly$/);
  expect(changed[0].body).toContain("It costs $100.00 a month for the team plan. The next payment is due on");
  const next = { nextTier: "pro", nextCadence: "annual", nextRenewalCents: 20_000n };
  const scheduled = await publishChange("sch_2", "change_scheduled", next);
  expect(summaryOf(scheduled)).toEqual(toOwners("billing.plan_change_scheduled"));
  expect(scheduled[0].title).toMatch(/changes to the pro plan, paid yearly, on 20 November 2026$/);
  expect(scheduled[0].body).toContain("costs $200.00 a year");
  expect(summaryOf(await publishChange("sch_3", "change_undone"))).toEqual(
    toOwners("billing.plan_change_undone"),
  );
  expect(await publishChange("sch_4", "change_scheduled", next)).toHaveLength(2);
  expect(summaryOf(await publishChange("sch_5", "cancellation_undone"))).toEqual(
    toOwners("billing.subscription_resumed"),
  );
});

test("one that comes back after a failed payment has not started again; one that never began has not ended", async () => {
  const change = subscription("sub_2");
  expect(await change("", "active")).toHaveLength(2);
  expect(await change("active", "past_due")).toEqual([]);
  expect(await change("past_due", "active")).toEqual([]);
  expect(await subscription("sub_3")("incomplete", "incomplete_expired")).toEqual([]);
  expect(await subscription("sub_4")("", "canceled")).toEqual([]);
});

test("a yearly plan says that its end is immediate and its unused months are refunded", async () => {
  const event = {
    accountId,
    subscriptionId: "sub_9",
    tier: "team",
    status: "active",
    currentPeriodEnd: at(0),
  };
  const price = { cadence: "annual", renewalCents: 100_000n };
  const [started] = await publish("billing", billing.SubscriptionChangedSchema, { ...event, ...price });
  expect(started.body).toContain("It costs $1,000.00 a year for the team plan. The next payment is due on");
  expect(started.body).toContain(
    "the plan then ends immediately, and the months that you did not use are refunded",
  );
});

test("a second subscription is announced by its refund alone, which says why", async () => {
  const about = {
    accountId,
    subscriptionId: "sub_10",
    tier: "pro",
    currentPeriodEnd: at(0),
    duplicate: true,
  };
  const change = (formerStatus: string, status: string) =>
    publish("billing", billing.SubscriptionChangedSchema, { ...about, formerStatus, status });
  expect(await change("", "active")).toEqual([]);
  expect(await change("active", "canceled")).toEqual([]);
  const [refunded] = await publish("billing", billing.RefundChangedSchema, {
    accountId,
    subscriptionId: "sub_10",
    status: "refunded",
    amountCents: 2_000n,
    reason: "duplicate",
  });
  expect(refunded.title).toMatch(/^h\w+ gets a refund of \$20\.00$/);
  expect(refunded.body).toContain("was subscribed twice at the same time, and both subscriptions were paid");
  expect(refunded.body).toContain("The first one continues unchanged.");
});

test("a paid invoice says what was charged, for what and for which time, line by line", async () => {
  const time = { periodStart: at(0), periodEnd: timestampFromMs(Date.UTC(2026, 11, 20)) };
  const [paid] = await publish("billing", billing.InvoiceMirroredSchema, {
    accountId,
    invoiceId: "in_9",
    kind: "subscription",
    status: "paid",
    number: "ADA-0003",
    totalCents: 3_100n,
    dueCents: 3_000n,
    lines: [
      { kind: "plan", tier: "pro", quantity: 1n, amountCents: 2_000n, ...time },
      { kind: "seat", tier: "pro", quantity: 1n, amountCents: 1_000n, ...time },
      { kind: "seat", tier: "pro", quantity: 2n, amountCents: 300n, proration: true, ...time },
      { kind: "compute", quantity: 158_100n, amountCents: 1_581n, ...time },
      { kind: "other", description: "Setup by www.evil.example", amountCents: 219n, ...time },
      { kind: "discount", amountCents: -1_000n },
      { kind: "credit", amountCents: -1_000n },
      { kind: "balance", amountCents: -100n },
    ],
  });
  expect(paid.title).toMatch(/^h\w+ paid \$30\.00$/);
  const days = "20 November 2026 to 20 December 2026";
  expect(paid.body.split("\n").slice(1)).toEqual([
    `The pro plan, ${days}: $20.00`,
    `1 additional member, ${days}: $10.00`,
    `2 additional members, change within the period, ${days}: $3.00`,
    `Compute that ran, ${days}: $15.81`,
    `Setup by www. evil. example, ${days}: $2.19`,
    "Discount of your promo code: -$10.00",
    "Paid by the compute credit of the plan: -$10.00",
    "Balance of the account: -$1.00",
    "The billing page shows when the next payment is due, and how to cancel.",
  ]);
  expect(paid.body).toMatch(/^The payment provider received \$30\.00 for invoice ADA-0003 of h\w+\.\n/);
  expect(paid.metadata).toMatchObject({ number: "ADA-0003", amount: "$30.00" });
});

test("an invoice yields a notice when it is paid, if money was paid", async () => {
  const invoice = (status: string, totalCents: bigint) =>
    publish("billing", billing.InvoiceMirroredSchema, {
      accountId,
      invoiceId: "in_1",
      kind: "subscription",
      status,
      totalCents,
    });
  expect(await invoice("open", 100_000n)).toEqual([]);
  expect(await invoice("paid", 0n)).toEqual([]);
  const paid = await invoice("paid", 100_000n);
  expect(summaryOf(paid)).toEqual(toOwners("billing.invoice_paid"));
  expect(paid[0].title).toMatch(/^h\w+ paid \$1,000\.00$/);
});

test("a failed payment yields a notice for each attempt, with what to do", async () => {
  const failed = (nextAttemptAt?: ReturnType<typeof at>) =>
    publish("billing", billing.PaymentFailedSchema, {
      accountId,
      invoiceId: "in_2",
      totalCents: 2_050n,
      ...(nextAttemptAt && { nextAttemptAt }),
    });
  const first = await failed(at(0));
  expect(summaryOf(first)).toEqual(toOwners("billing.payment_failed"));
  expect(first[0].title).toMatch(/^A payment of \$20\.50 for h\w+ failed$/);
  expect(first[0].body).toContain("will try again on 20 November 2026");
  expect(first[0].body).toContain("You can pay the invoice now, or change the payment method.");
  const last = await failed();
  expect(last[0].body).toContain("will not try again");
});

test("a refund yields notices when it is under review, issued and failed", async () => {
  for (const [status, kind] of [
    ["under_review", "billing.refund_under_review"],
    ["refunded", "billing.refund_issued"],
    ["denied", "billing.refund_denied"],
    ["failed", "billing.refund_failed"],
  ] as const) {
    const event = { accountId, subscriptionId: "sub_5", status, amountCents: 16_000n };
    const received = await publish("billing", billing.RefundChangedSchema, event);
    expect(summaryOf(received)).toEqual(toOwners(kind));
    expect(received[0].title).toContain("$160.00");
  }
});

test("each failed refund yields a notice, which asks how to pay it instead", async () => {
  const failed = (refundId: string) =>
    publish("billing", billing.RefundChangedSchema, {
      accountId,
      subscriptionId: "sub_6",
      status: "failed",
      amountCents: 700n,
      refundId,
    });
  expect(summaryOf(await failed("re_1"))).toEqual(toOwners("billing.refund_failed"));
  expect(summaryOf(await failed("re_2"))).toEqual(toOwners("billing.refund_failed"));
  expect(await failed("re_2")).toEqual([]);
});

test("a payment that needs confirmation yields one notice, with where to confirm it", async () => {
  const event = { accountId, invoiceId: "in_3", totalCents: 2_000n };
  const received = await publish("billing", billing.PaymentActionRequiredSchema, event);
  expect(summaryOf(received)).toEqual(toOwners("billing.payment_action_required"));
  expect(received[0].title).toMatch(/^A payment of \$20\.00 for h\w+ needs your confirmation$/);
  expect(received[0].body).toContain("Open the page of the invoice and pay it there.");
  expect(received[0].metadata).toMatchObject({ invoiceId: "in_3" });
});

test("a card that expires soon yields one notice, and so does another card", async () => {
  const expiring = (last4: string) =>
    publish("billing", billing.CardExpiringSchema, {
      accountId,
      subscriptionId: "sub_7",
      brand: "visa",
      last4,
      expMonth: 12,
      expYear: 2026,
    });
  const received = await expiring("4242");
  expect(summaryOf(received)).toEqual(toOwners("billing.card_expiring"));
  expect(received[0].title).toMatch(/^The card that pays for h\w+ expires at the end of December 2026$/);
  expect(received[0].body).toContain("visa card that ends in 4242");
  expect(await expiring("0341")).toHaveLength(2);
});

test("superseded prices yield a notice with the day until which they hold", async () => {
  const received = await publish("billing", billing.PricesSupersededSchema, {
    accountId,
    subscriptionId: "sub_8",
    priceVersion: "2026-11",
    legacyUntil: at(0),
  });
  expect(summaryOf(received)).toEqual(toOwners("billing.price_change"));
  expect(received[0].title).toMatch(/^The prices of h\w+ stay the same until 20 November 2026$/);
});

test("using up the plan's credit yields its own notice instead of the one for 100 %", async () => {
  const reached = (percent: number, accruedNanoUsd: bigint) =>
    publish("billing", billing.UsageThresholdSchema, {
      accountId,
      percent,
      periodStart: at(120),
      accruedNanoUsd,
      budgetNanoUsd: 10_000_000_000n,
      creditNanoUsd: 10_000_000_000n,
    });
  expect(summaryOf(await reached(90, 9_000_000_000n))).toEqual(toOwners("billing.usage_threshold"));
  const received = await reached(100, 10_010_000_000n);
  expect(summaryOf(received)).toEqual(toOwners("billing.credit_exhausted"));
  expect(received[0].body).toContain("costs $10.01; the plan pays $10.00 of it");
});

test("compute that reaches a share of its budget yields one notice for the share and the period", async () => {
  const reached = (percent: number, periodStart = at(0)) =>
    publish("billing", billing.UsageThresholdSchema, {
      accountId,
      percent,
      periodStart,
      accruedNanoUsd: 9_000_000_000n,
      budgetNanoUsd: 10_000_000_000n,
    });
  const received = await reached(90);
  expect(summaryOf(received)).toEqual(toOwners("billing.usage_threshold"));
  expect(received[0].title).toMatch(/^h\w+ has used 90 % of its compute budget$/);
  expect(received[0].body).toContain("costs $9.00; its budget is $10.00");
  expect(await reached(100)).toHaveLength(2);
  expect(await reached(90, at(60))).toHaveLength(2);
  expect(await reached(90)).toEqual([]);
});

test("a saved promo code that could not be applied, with the reason, and without a link in its name", async () => {
  const event = { accountId, code: "www.EVIL", reason: "plan_restricted" };
  const received = await publish("billing", billing.CouponNotAppliedSchema, event);
  expect(summaryOf(received)).toEqual(toOwners("billing.coupon_not_applied"));
  expect(received[0].title).toBe("The promo code www. EVIL was not applied");
  expect(received[0].body).toContain("it is for another plan");
});

test("the stages of a grace period say until when services run, what follows, and how to prevent it", async () => {
  const reach = (stage: string, owed = true) =>
    publish("billing", billing.GraceStageReachedSchema, { accountId, stage, graceUntil: at(0), owed });
  const started = await reach("started");
  expect(summaryOf(started)).toEqual(toOwners("billing.grace_period"));
  expect(started[0].title).toMatch(/^Services of h\w+ keep running until 20 November 2026$/);
  expect(started[0].body).toContain(
    "To keep all of them running, subscribe on the billing page before that day.",
  );
  expect(started[0].body).toContain("If you do not subscribe, it is not charged.");
  expect((await reach("halfway", false))[0].body).not.toContain("charged");
  expect((await reach("last_day"))[0].title).toMatch(/^Services of h\w+ are stopped tomorrow$/);
  const over = await reach("over");
  expect(summaryOf(over)).toEqual(toOwners("billing.services_stopped"));
  expect(over[0].body).toContain("start again when you subscribe on the billing page");
  expect(await reach("started")).toEqual([]);
  const resumed = { accountId, reason: "free_plan", at: at(60) };
  expect(summaryOf(await publish("billing", billing.ServicesResumedSchema, resumed))).toEqual(
    toOwners("billing.services_resumed"),
  );
});

test("a spend limit that comes close yields one notice for each share, with what is spent and what follows", async () => {
  const reach = (percent: number, limitCents = 5_000n) =>
    publish("billing", billing.SpendLimitReachedSchema, {
      ...{ accountId, percent, limitCents, spentNanoUsd: 25_100_000_000n },
      ...{ periodStart: at(0), periodEnd: at(60 * 24 * 30) },
    });
  const half = await reach(50);
  expect(summaryOf(half)).toEqual(toOwners("billing.spend_limit"));
  expect(half[0].title).toMatch(/^h\w+ has spent 50 % of its limit$/);
  expect(half[0].body).toContain(
    "costs $25.10 beyond what its plan includes; the limit that you set is $50.00",
  );
  const all = await reach(100);
  expect(all[0].title).toMatch(/^h\w+ has reached its spend limit$/);
  expect(all[0].body).toContain("Services are therefore stopped until the period ends on");
  expect(await reach(50)).toEqual([]);
  expect(await reach(50, 10_000n)).toHaveLength(2);
});

test("no notice of billing names a path of the API", async () => {
  const { rows } = await service.pool.query(
    "select title, body from notifications where kind like 'billing.%'",
  );
  expect(rows.length).toBeGreaterThan(0);
  for (const { title, body } of rows)
    expect(`${title} ${body}`).not.toMatch(/\/accounts|\/v1|GET |POST |hostedUrl/);
});

test("a dispute, and how the bank decided it: whether the plan ends, and that nothing is refunded twice", async () => {
  const about = { accountId, disputeId: "du_1", invoiceId: "in_9", number: "ADA-0009" };
  const change = (outcome: string, endsPlan = false) =>
    publish("billing", billing.DisputeChangedSchema, { ...about, outcome, endsPlan, amountCents: 23_800n });
  const opened = await change("open");
  expect(summaryOf(opened)).toEqual(toOwners("billing.payment_disputed"));
  expect(opened[0].title).toMatch(/^A payment of \$238\.00 for h\w+ is disputed$/);
  expect(opened[0].body).toContain("for invoice ADA-0009");
  expect(opened[0].body).toContain("nothing of this subscription is refunded");
  expect(opened[0].mailState).not.toBe("none");
  const lost = await change("lost", true);
  expect(summaryOf(lost)).toEqual(toOwners("billing.dispute_closed"));
  expect(lost[0].body).toContain(
    "It is not refunded a second time. Because the plan is not paid any longer, it ends now.",
  );
  expect(await change("lost", true)).toEqual([]);
  const won = await publish("billing", billing.DisputeChangedSchema, {
    ...about,
    disputeId: "du_2",
    outcome: "won",
    amountCents: 2_000n,
  });
  expect(won[0].body).toContain("Refunds that waited for the decision are made now.");
});

test("a refund that waits for a bank says so, and one with taxes how much of it they are", async () => {
  const about = { accountId, subscriptionId: "sub_du", amountCents: 21_420n, taxCents: 3_420n };
  const waits = { ...about, status: "under_review", reason: "disputed" };
  const [waiting] = await publish("billing", billing.RefundChangedSchema, waits);
  expect(waiting.body).toContain("waits for the bank to decide about a payment that is disputed");
  // It may also be a second subscription, or have ended because it was not paid.
  expect(waiting.body).not.toContain("canceled");
  const made = { ...about, status: "refunded", reason: "canceled" };
  const [refunded] = await publish("billing", billing.RefundChangedSchema, made);
  expect(refunded.body).toContain("It includes $34.20 of taxes.");
});
