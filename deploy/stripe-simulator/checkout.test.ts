import type Stripe from "stripe";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openSession, openShop, payOnPage, type Shop } from "./testing.ts";

let shop: Shop;
beforeEach(async () => {
  shop = await openShop();
});
afterEach(() => shop.stop());

test.each([
  ["hosted, the name of ui_mode until 2026", { ui_mode: "hosted" }, "ui_mode", "parameter_invalid_enum"],
  [
    "payment_method_types, which is gone",
    { payment_method_types: ["card"] },
    "payment_method_types",
    "parameter_unknown",
  ],
  ["two discounts", { discounts: [{ coupon: "A" }, { coupon: "B" }] }, "discounts", undefined],
  ["an end in 10 minutes", { expires_at: Math.floor(Date.now() / 1000) + 600 }, "expires_at", undefined],
  ["an end in two days", { expires_at: Math.floor(Date.now() / 1000) + 172_800 }, "expires_at", undefined],
  [
    "a code that is not there",
    { discounts: [{ promotion_code: "promo_no" }] },
    "discounts[0][promotion_code]",
    "resource_missing",
  ],
  [
    "a coupon of the subscription",
    { subscription_data: { coupon: "A" } },
    "subscription_data[coupon]",
    "parameter_unknown",
  ],
])("a session is refused with %s", async (_, change, param, code) => {
  const refused = openSession(shop, { price: shop.prices.annual.id, ...(change as object) });
  await expect(refused).rejects.toMatchObject({
    type: "StripeInvalidRequestError",
    statusCode: 400,
    param,
    code,
  });
});

test("once the clock is moved, a session may still end an hour from now as its client counts, whose clock stays", async () => {
  shop.days(40);
  const { id, expires_at } = await openSession(shop, {
    price: shop.prices.monthly.id,
    expires_at: Math.floor(Date.now() / 1_000) + 3_600,
  });
  expect(expires_at).toBeGreaterThan(shop.clock.now());
  shop.clock.advance(3_600);
  expect(await shop.stripe.checkout.sessions.retrieve(id)).toMatchObject({ status: "expired" });
});

test("a session takes neither prices of different intervals nor a quantity of a metered price", async () => {
  const { prices } = shop;
  const line = (price: string, quantity?: number) => ({ price, ...(quantity && { quantity }) });
  const withLines = (...line_items: Stripe.Checkout.SessionCreateParams.LineItem[]) =>
    openSession(shop, { price: prices.annual.id, line_items });
  await expect(withLines(line(prices.annual.id, 1), line(prices.compute.id))).rejects.toThrow(
    /same recurring.interval/,
  );
  await expect(withLines(line(prices.compute.id, 1))).rejects.toThrow(/metered/);
});

test("the page shows what is bought with its discount; a declined card leaves the session open, Cancel leads back", async () => {
  const { stripe, prices } = shop;
  const coupon = await stripe.coupons.create({ percent_off: 25, duration: "forever", name: "Quarter" });
  const code = await stripe.promotionCodes.create({
    code: "SAVE25",
    promotion: { type: "coupon", coupon: coupon.id },
  });
  const session = await openSession(shop, {
    price: prices.annual.id,
    discounts: [{ promotion_code: code.id }],
  });
  expect(session).toMatchObject({ amount_subtotal: 20_000, amount_total: 15_000 });

  const shown = await (await fetch(session.url!)).text();
  expect(shown).toContain("This is a simulator: no money moves");
  const said = [
    "1 × Pro",
    "$200.00",
    "SAVE25",
    "-$50.00",
    "$150.00",
    "ada@example.com",
    "0000 0341 pays now",
  ];
  for (const text of said) expect(shown).toContain(text);
  expect(shown).not.toContain("<script");

  const declined = await payOnPage(session, "4000000000000002");
  expect(declined.status).toBe(402);
  expect(await declined.text()).toContain("Your card was declined.");
  expect((await payOnPage(session, "1234")).status).toBe(402);
  const canceled = await fetch(session.url!, {
    method: "POST",
    body: new URLSearchParams({ action: "cancel" }),
    redirect: "manual",
  });
  expect(canceled.headers.get("location")).toBe("http://localhost/back");
  expect(await stripe.checkout.sessions.retrieve(session.id)).toMatchObject({
    status: "open",
    subscription: null,
  });

  expect((await payOnPage(session)).status).toBe(303);
  const bought = await stripe.checkout.sessions.retrieve(session.id, {
    expand: ["subscription.discounts", "line_items"],
  });
  const { discounts } = bought.subscription as Stripe.Subscription;
  expect(discounts).toMatchObject([
    { promotion_code: code.id, source: { coupon: coupon.id, type: "coupon" } },
  ]);
  expect(bought.line_items!.data).toMatchObject([{ amount_total: 15_000, quantity: 1 }]);
  expect((await payOnPage(session)).status).toBe(200);
});

test("the limit of a code holds at payment: of two open pages, one is paid with its last redemption", async () => {
  const { stripe, prices } = shop;
  const coupon = await stripe.coupons.create({ percent_off: 25, duration: "forever" });
  const code = await stripe.promotionCodes.create({
    promotion: { type: "coupon", coupon: coupon.id },
    max_redemptions: 1,
  });
  const open = () => openSession(shop, { price: prices.annual.id, discounts: [{ promotion_code: code.id }] });
  const [first, second] = [await open(), await open()];
  expect((await payOnPage(first)).status).toBe(303);
  const refused = await payOnPage(second);
  expect(refused.status).toBe(402);
  expect(await refused.text()).toContain("This promotion code has been redeemed as often as it can be.");
  expect(await stripe.checkout.sessions.retrieve(second.id)).toMatchObject({ status: "open" });
  expect(await stripe.promotionCodes.retrieve(code.id)).toMatchObject({ times_redeemed: 1 });
});

test("a session ends when it is told to, or when its time is over", async () => {
  const { stripe, prices, clock } = shop;
  const [first, second] = [
    await openSession(shop, { price: prices.annual.id }),
    await openSession(shop, { price: prices.annual.id }),
  ];
  await stripe.checkout.sessions.expire(first.id);
  await expect(stripe.checkout.sessions.expire(first.id)).rejects.toThrow(/status of expired/);
  expect((await payOnPage(first)).status).toBe(410);
  clock.advance(24 * 60 * 60);
  expect((await stripe.checkout.sessions.retrieve(second.id)).status).toBe("expired");
  expect((await stripe.checkout.sessions.list({ customer: shop.customer.id, status: "open" })).data).toEqual(
    [],
  );
  const types = ["checkout.session.expired"];
  expect(
    (await stripe.events.list({ types })).data.map(({ data }) => (data.object as Stripe.Checkout.Session).id),
  ).toEqual([second.id, first.id]);
});

test("what programs say to the simulator completes, declines and expires sessions", async () => {
  const { stripe, prices, url } = shop;
  const session = await openSession(shop, { price: prices.annual.id });
  const say = (action: string) => fetch(`${url}/_sim/checkout/${session.id}/${action}`, { method: "POST" });
  expect((await say("fail")).status).toBe(402);
  expect((await say("complete")).status).toBe(200);
  expect((await say("expire")).status).toBe(400);
  expect((await stripe.checkout.sessions.retrieve(session.id)).payment_status).toBe("paid");
});

test("a session that is paid later is complete and unpaid until the bank has paid, or has not", async () => {
  const { stripe, prices, url } = shop;
  const say = async (id: string, action: string, body = {}) =>
    (await fetch(`${url}/_sim/checkout/${id}/${action}`, { method: "POST", body: JSON.stringify(body) }))
      .status;
  const complete = async () => {
    const { id } = await openSession(shop, { price: prices.annual.id });
    expect(await say(id, "complete", { payment: "later" })).toBe(200);
    return stripe.checkout.sessions.retrieve(id, { expand: ["subscription"] });
  };
  const paid = await complete();
  expect(paid).toMatchObject({
    status: "complete",
    payment_status: "unpaid",
    subscription: { status: "incomplete" },
  });
  await say(paid.id, "complete");
  const { subscription } = await stripe.checkout.sessions.retrieve(paid.id, { expand: ["subscription"] });
  expect(subscription).toMatchObject({ status: "active" });
  expect(await say(paid.id, "complete")).toBe(400);

  const failed = await complete();
  await say(failed.id, "fail");
  const { data } = await stripe.events.list({ types: ["checkout.session.*"] });
  expect(data.map(({ type }) => type)).toEqual([
    "checkout.session.async_payment_failed",
    "checkout.session.completed",
    "checkout.session.async_payment_succeeded",
    "checkout.session.completed",
  ]);
  shop.days(1);
  const { id } = failed.subscription as Stripe.Subscription;
  expect((await stripe.subscriptions.retrieve(id)).status).toBe("incomplete_expired");
});
