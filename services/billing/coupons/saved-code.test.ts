import { toJson } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PendingCouponSchema } from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import { CouponNotAppliedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { makePromo } from "./testing.ts";

const DAY = 86_400;

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

const promo = (...args: Parameters<typeof makePromo> extends [unknown, ...infer Rest] ? Rest : never) =>
  makePromo(billing.stripe.stripe, ...args);

/** An account with what tests do with its promo codes. */
function shopper(members = 1) {
  const accountId = billing.account(members);
  const owner = billing.as(accountId);
  return {
    accountId,
    owner,
    redeem: (code: string) => owner.redeemCoupon({ accountId, code }),
    remove: () => owner.removeCoupon({ accountId }),
    pending: async () => toJson(PendingCouponSchema, await owner.getCoupon({ accountId })),
    coupon: async () => (await owner.getSubscription({ accountId })).coupon,
    subscribe: (choice = {}) => subscribe(billing, accountId, choice),
    notApplied: () => billing.published(CouponNotAppliedSchema, accountId),
  };
}

/** Returns the total of the invoice of the next month, in cents. */
async function nextInvoice(subscription: string): Promise<number> {
  const { stripe, clock } = billing.stripe;
  const { items } = await stripe.subscriptions.retrieve(subscription);
  clock.advance(items.data[0]!.current_period_end - clock.now() + 7_200);
  const { data } = await stripe.invoices.list({ subscription, limit: 1 });
  return data[0]!.total;
}

/** Reports compute of ten dollars. */
async function useCompute(subscription: string): Promise<void> {
  const { stripe, clock } = billing.stripe;
  const { customer } = await stripe.subscriptions.retrieve(subscription);
  await stripe.billing.meterEvents.create({
    event_name: "compute_usage",
    payload: { stripe_customer_id: customer as string, value: "100000" },
    timestamp: clock.now(),
  });
}

test("without a subscription a code is saved, another takes its place, and deleting drops it", async () => {
  await promo("FIRST20");
  await promo("SECOND", {
    coupon: { amount_off: 700, currency: "usd", name: "Seven off", duration: "once" },
  });
  const { redeem, remove, pending } = shopper();
  expect(await pending()).toEqual({ pending: null });
  await redeem("FIRST20");
  expect(await pending()).toEqual({ pending: { code: "FIRST20", label: "FIRST20", percentOff: 20 } });
  await redeem("second");
  expect(await pending()).toEqual({ pending: { code: "SECOND", label: "Seven off", amountOffCents: 700 } });
  await remove();
  await remove();
  expect(await pending()).toEqual({ pending: null });
});

test("a saved code is spent at the next checkout: it moves onto the subscription", async () => {
  await promo("WELCOME");
  const { redeem, pending, subscribe, coupon } = shopper();
  await redeem("welcome");
  const { invoices } = await subscribe();
  expect(invoices).toMatchObject([{ totalUsd: 16 }]);
  expect(await pending()).toEqual({ pending: null });
  expect(await coupon()).toMatchObject({ code: "WELCOME", percentOff: 20 });
});

test("a code for one time that the first invoice used up does not wait for another subscription", async () => {
  await promo("ONCE", { coupon: { duration: "once" } });
  const { redeem, pending, subscribe } = shopper();
  await redeem("ONCE");
  expect((await subscribe()).invoices).toMatchObject([{ totalUsd: 16 }]);
  expect(await pending()).toEqual({ pending: null });
});

test("on a subscription a code is seen at once, and takes its share off the next invoice, but nothing off compute", async () => {
  await promo("HALF", { coupon: { percent_off: 50 } });
  const { redeem, remove, coupon, pending, subscribe, owner, accountId } = shopper();
  const { id } = await subscribe();
  await redeem(" half ");
  expect(await coupon()).toMatchObject({ code: "HALF", label: "HALF", percentOff: 50 });
  expect((await owner.getSubscription({ accountId })).couponCode).toBe("HALF");
  expect(await pending()).toEqual({ pending: null });
  await useCompute(id);
  expect(await nextInvoice(id)).toBe(1_000 + 1_000);
  await remove();
  await remove();
  expect(await coupon()).toBeUndefined();
  await useCompute(id);
  expect(await nextInvoice(id)).toBe(2_000 + 1_000);
});

test("a discount stays when the prices and seats of the subscription change", async () => {
  await promo("KEEPS");
  const { redeem, coupon, subscribe } = shopper(5);
  const { id } = await subscribe();
  await redeem("KEEPS");
  const { stripe } = billing.stripe;
  const { items } = await stripe.subscriptions.retrieve(id);
  const plan = items.data.find(({ price }) => price.metadata.kind === "plan")!;
  const seat = items.data.find(({ price }) => price.metadata.kind === "seat")!;
  const team = (await stripe.prices.list({ lookup_keys: ["plan_team_monthly_2026-11"] })).data[0]!;
  await stripe.subscriptions.update(id, {
    items: [
      { id: plan.id, price: team.id },
      { id: seat.id, quantity: 1 },
    ],
    proration_behavior: "none",
  });
  expect(await nextInvoice(id)).toBe(8_800);
  expect(await coupon()).toMatchObject({ code: "KEEPS" });
});

test("a code for three months reduces three invoices, however often it is removed and redeemed again", async () => {
  await promo("THREE", {
    max_redemptions: 1,
    coupon: { percent_off: 50, duration: "repeating", duration_in_months: 3 },
  });
  const { redeem, remove, coupon, subscribe } = shopper();
  const { id } = await subscribe();
  // Not in the second of the renewals: the last one would be at the very end of the term.
  billing.stripe.clock.advance(DAY);
  await redeem("THREE");
  expect(await nextInvoice(id)).toBe(1_000);
  await remove();
  await redeem("three");
  expect(await coupon()).toMatchObject({ code: "THREE", label: "THREE", percentOff: 50 });
  await redeem("THREE");
  await remove();
  expect(await nextInvoice(id)).toBe(2_000);
  await redeem("THREE");
  expect(await nextInvoice(id)).toBe(1_000);
  await remove();
  expect(await refused(redeem("THREE"))).toBe("422 validation_failed redemption_limit");
  expect(await nextInvoice(id)).toBe(2_000);
});

test("a code for three months reduces three invoices also of a plan that was bought on the last day of a month", async () => {
  await promo("LASTDAY", { coupon: { percent_off: 50, duration: "repeating", duration_in_months: 3 } });
  const { redeem, remove, subscribe } = shopper();
  const { clock } = billing.stripe;
  const nextYear = new Date(clock.now() * 1_000).getUTCFullYear() + 1;
  clock.advance(Date.UTC(nextYear, 0, 31, 13, 47, 11) / 1_000 - clock.now());
  const { id, invoices } = await subscribe({ code: "LASTDAY" });
  expect(invoices[0]?.totalUsd).toBe(10);
  clock.advance(DAY);
  await remove();
  await redeem("LASTDAY");
  // At the end of February, on 31 March, and on 30 April.
  expect(await nextInvoice(id)).toBe(1_000);
  expect(await nextInvoice(id)).toBe(1_000);
  expect(await nextInvoice(id)).toBe(2_000);
});

test("a code for one time is spent by the invoice that it reduces, not by being removed", async () => {
  await promo("SINGLE", { coupon: { percent_off: 50, duration: "once" }, max_redemptions: 1 });
  const { redeem, remove, coupon, subscribe, owner, accountId } = shopper();
  const { id } = await subscribe();
  await redeem("SINGLE");
  await remove();
  await redeem("SINGLE");
  expect(await nextInvoice(id)).toBe(1_000);
  await eventually("it has left the subscription", async () => (await coupon()) === undefined);
  expect(await refused(redeem("SINGLE"))).toBe("422 validation_failed redemption_limit");
  await owner.cancelSubscription({ accountId });
  expect(await refused(redeem("SINGLE"))).toBe("422 validation_failed redemption_limit");
});

test("a code that a checkout spent is refused at the next one, and what is left of another reduces it", async () => {
  const twoMonths = { duration: "repeating", duration_in_months: 2 } as const;
  await promo("FIRSTTIME", { coupon: { duration: "once" }, restrictions: { first_time_transaction: true } });
  await promo("TWOMONTHS", {
    coupon: { percent_off: 50, ...twoMonths },
    expires_at: billing.stripe.clock.now() + DAY,
  });
  const { redeem, subscribe, owner, accountId, pending } = shopper();
  await redeem("FIRSTTIME");
  const { id } = await subscribe();
  expect(await refused(redeem("FIRSTTIME"))).toBe("422 validation_failed redemption_limit");
  await redeem("TWOMONTHS");
  await owner.cancelSubscription({ accountId });
  const { stripe, clock } = billing.stripe;
  clock.advance((await stripe.subscriptions.retrieve(id)).cancel_at! - clock.now() + DAY);
  await eventually("the plan has ended", async () => {
    const found = await owner.getSubscription({ accountId }).catch(() => undefined);
    return found === undefined;
  });
  await redeem("TWOMONTHS");
  const again = await subscribe();
  expect(again.invoices[0]).toMatchObject({ totalUsd: 10 });
  expect(await pending()).toEqual({ pending: null });
  expect(await nextInvoice(again.id)).toBe(2_000);
});

test("the last redemption goes to who pays first: the other page refuses the code, and another page has none", async () => {
  await promo("LASTONE", { max_redemptions: 1 });
  const [first, second] = [shopper(), shopper()];
  await first.redeem("LASTONE");
  await second.redeem("LASTONE");
  const choice = { accountId: second.accountId, tierId: "pro" };
  const { checkoutUrl } = await second.owner.createSubscription(choice);
  expect((await first.subscribe()).invoices).toMatchObject([{ totalUsd: 16 }]);
  await expect(billing.pay(checkoutUrl)).rejects.toThrow("redeemed as often as it can be");
  expect((await second.subscribe()).invoices).toMatchObject([{ totalUsd: 20 }]);
  expect(await second.notApplied()).toMatchObject([{ code: "LASTONE", reason: "redemption_limit" }]);
});

test("who redeems and removes a code is in the audit log, once", async () => {
  await promo("LOGGED");
  const { redeem, remove, subscribe, accountId } = shopper();
  await redeem("LOGGED");
  await redeem("logged");
  await subscribe();
  await remove();
  await remove();
  await redeem("LOGGED");
  const codes = await eventually("all are sent", async () => {
    const records = await billing.published(AuditRecordedSchema, accountId);
    const found = records.filter(({ action }) => action.startsWith("coupon."));
    return found.length >= 3 && found;
  });
  expect(codes.map(({ action, target }) => `${action} ${target}`)).toEqual([
    "coupon.redeem LOGGED",
    "coupon.remove LOGGED",
    "coupon.redeem LOGGED",
  ]);
  expect(codes[0]).toMatchObject({ actor: { kind: "user" } });
});

test("a code that is redeemed twice, or twice at once, is redeemed once", async () => {
  const { id } = await promo("TWICE", { max_redemptions: 1 });
  const { redeem, subscribe, coupon } = shopper();
  await subscribe();
  await Promise.all([redeem("TWICE"), redeem("twice")]);
  await redeem("TWICE");
  expect(await coupon()).toMatchObject({ code: "TWICE" });
  expect((await billing.stripe.stripe.promotionCodes.retrieve(id)).times_redeemed).toBe(1);
});

test("the answer is lost: the provider has the discount, and asking again finds it", async () => {
  await promo("LOST", { max_redemptions: 1 });
  const { redeem, subscribe, coupon } = shopper();
  const { id } = await subscribe();
  billing.stripe.faults.add({
    kind: "lose_answer",
    method: "POST",
    path: `/v1/subscriptions/${id}`,
    times: 9,
  });
  expect(await refused(redeem("LOST"))).toBe("502 payment_provider_unavailable");
  billing.stripe.faults.clear();
  await redeem("LOST");
  expect(await coupon()).toMatchObject({ code: "LOST" });
});

test.each(["NOSUCH", "näh", "два слова", "a b", "💸", "x".repeat(200), " ", "a'b\"c\\", "%", "A_B"])(
  "there is no code %s",
  async (code) => {
    expect(await refused(shopper().redeem(code))).toBe("404 coupon_not_found");
  },
);

test("an empty code and one of 201 characters are refused before anybody is asked", async () => {
  expect((await refusal(shopper().redeem(""))).status).toBe(422);
  expect((await refusal(shopper().redeem("x".repeat(201)))).paths).toEqual(["code"]);
});

test("every refusal, saved or on a subscription", async () => {
  const now = billing.stripe.clock.now();
  await promo("TEAMONLY", { tiers: ["team"] });
  await promo("USEDUP", { max_redemptions: 1 });
  await promo("NEWONLY", { restrictions: { first_time_transaction: true } });
  await promo("ENDS", { expires_at: now + DAY });
  await promo("EUROS", { coupon: { amount_off: 5, currency: "eur" } });
  await promo("OFF", { active: false });
  const [free, paid] = [shopper(), shopper()];
  await paid.subscribe();
  await shopper().redeem("USEDUP");
  const last = shopper();
  await last.subscribe();
  await last.redeem("USEDUP");
  for (const { redeem } of [free, paid]) {
    expect(await refused(redeem("USEDUP"))).toBe("422 validation_failed redemption_limit");
    expect(await refused(redeem("OFF"))).toBe("422 validation_failed expired");
    expect(await refused(redeem("EUROS"))).toBe("422 validation_failed not_eligible");
  }
  expect(await refused(paid.redeem("TEAMONLY"))).toBe("422 validation_failed plan_restricted");
  expect(await refused(paid.redeem("NEWONLY"))).toBe("422 validation_failed not_eligible");
  await free.redeem("TEAMONLY");
  await free.redeem("NEWONLY");
  await free.redeem("ENDS");
  billing.stripe.clock.advance(2 * DAY);
  expect(await refused(shopper().redeem("ENDS"))).toBe("422 validation_failed expired");
});

test("a coupon without restrictions would discount compute: it is refused, and the log tells the operator why", async () => {
  const { stripe } = billing.stripe;
  const coupon = await stripe.coupons.create({ percent_off: 10, duration: "forever" });
  await stripe.promotionCodes.create({ promotion: { type: "coupon", coupon: coupon.id }, code: "ALLOFIT" });
  expect(await refused(shopper().redeem("ALLOFIT"))).toBe("422 validation_failed not_eligible");
  expect(billing.logLines.some((line) => line.includes(coupon.id) && line.includes("compute"))).toBe(true);
});

test("a code of one customer is a code of nobody else", async () => {
  const { stripe } = billing.stripe;
  const mine = shopper();
  const { id } = await mine.subscribe();
  const customer = (await stripe.subscriptions.retrieve(id)).customer as string;
  await promo("MINE", { customer });
  expect(await refused(shopper().redeem("MINE"))).toBe("404 coupon_not_found");
  await mine.redeem("MINE");
  expect(await mine.coupon()).toMatchObject({ code: "MINE" });
});

test("a saved code for another plan stays, the checkout goes on without it, and owners are told once", async () => {
  await promo("FORTEAM", { tiers: ["team"] });
  const { redeem, pending, owner, accountId, notApplied, subscribe } = shopper();
  await redeem("FORTEAM");
  const pro = { accountId, tierId: "pro" };
  const { checkoutUrl } = await owner.createSubscription(pro);
  expect((await owner.createSubscription(pro)).checkoutUrl).toBe(checkoutUrl);
  const told = await eventually("owners are told", async () => {
    const events = await notApplied();
    return events.length > 0 && events;
  });
  expect(told).toMatchObject([{ accountId, code: "FORTEAM", reason: "plan_restricted" }]);
  expect(await pending()).toMatchObject({ pending: { code: "FORTEAM" } });
  await subscribe({ tierId: "team" });
  expect(await pending()).toEqual({ pending: null });
  expect(await notApplied()).toHaveLength(1);
});

test("a saved code that has ended by the checkout stays until it is dropped", async () => {
  await promo("SHORT", { expires_at: billing.stripe.clock.now() + DAY });
  const { redeem, pending, subscribe, notApplied } = shopper();
  await redeem("SHORT");
  billing.stripe.clock.advance(2 * DAY);
  expect((await subscribe()).invoices).toMatchObject([{ totalUsd: 20 }]);
  expect(await pending()).toMatchObject({ pending: { code: "SHORT" } });
  expect(await notApplied()).toMatchObject([{ code: "SHORT", reason: "expired" }]);
});

test("while the provider is away, codes are 502; what is saved is shown and dropped all the same", async () => {
  await promo("AWAY");
  const { redeem, remove, pending } = shopper();
  await redeem("AWAY");
  const paid = shopper();
  await paid.subscribe();
  billing.stripe.faults.add({ kind: "rate_limit", times: 100 });
  try {
    expect(await refused(redeem("AWAY"))).toBe("502 payment_provider_unavailable");
    expect(await pending()).toMatchObject({ pending: { code: "AWAY" } });
    await remove();
    expect(await pending()).toEqual({ pending: null });
    expect(await refused(paid.remove())).toBe("502 payment_provider_unavailable");
  } finally {
    billing.stripe.faults.clear();
  }
});
