import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Stripe from "stripe";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ask, foreignHeaders, ownHeaders } from "../local/testing.ts";
import { startStripe } from "./start.ts";
import { clientOf, openShop, type Shop, subscribe } from "./testing.ts";

let shop: Shop;
beforeEach(async () => {
  shop = await openShop();
});
afterEach(() => shop.stop());

test("a key that is no test key is refused, and errors have Stripe's envelope", async () => {
  await expect(clientOf(shop.url, "sk_live_1").customers.list()).rejects.toBeInstanceOf(
    Stripe.errors.StripeAuthenticationError,
  );
  const answer = await fetch(`${shop.url}/v1/customers/cus_no`, {
    headers: { authorization: "Bearer sk_test_1" },
  });
  expect(answer.status).toBe(404);
  expect(answer.headers.get("request-id")).toMatch(/^req_/);
  expect(await answer.json()).toEqual({
    error: {
      type: "invalid_request_error",
      code: "resource_missing",
      param: "id",
      message: "No such customer: 'cus_no'",
    },
  });
});

test("pages of elsewhere move no clock, pay nothing and read nothing: the key is no secret", async () => {
  const authorization = "Bearer sk_test_1";
  const flush = `${shop.url}/_sim/webhooks/flush`;
  const customers = `${shop.url}/v1/customers`;
  for (const headers of foreignHeaders(shop.url)) {
    expect([headers, (await ask(flush, "POST", headers)).status]).toEqual([headers, 403]);
    for (const method of ["GET", "POST"])
      expect([headers, await ask(customers, method, { ...headers, authorization })]).toEqual([
        headers,
        { status: 403 },
      ]);
  }
  for (const headers of ownHeaders(shop.url)) {
    expect([headers, (await ask(flush, "POST", headers)).status]).toEqual([headers, 200]);
    expect([headers, await ask(customers, "POST", { ...headers, authorization })]).toEqual([
      headers,
      { status: 200 },
    ]);
  }
  const link = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
  expect((await ask(`${shop.url}/`, "GET", { host: new URL(shop.url).host, ...link })).status).toBe(200);
  expect((await ask(flush, "POST", { host: new URL(shop.url).host, ...link })).status).toBe(403);
});

test("unknown parameters and those of a wrong kind are refused by their full names", async () => {
  const { stripe } = shop;
  const unknown = stripe.customers.create({ invoice_settings: { color: "red" } } as never);
  await expect(unknown).rejects.toMatchObject({
    code: "parameter_unknown",
    param: "invoice_settings[color]",
  });
  const wrong = stripe.checkout.sessions.list({ limit: "many" as never });
  await expect(wrong).rejects.toMatchObject({ code: "parameter_invalid_integer", param: "limit" });
  const absent = stripe.prices.create({} as never);
  await expect(absent).rejects.toMatchObject({ code: "parameter_missing", param: "currency" });
});

test("an Idempotency-Key gives the first answer again, also a 500, and refuses another request", async () => {
  const { stripe, faults } = shop;
  const key = { idempotencyKey: "cus:1" };
  const first = await stripe.customers.create({ email: "a@example.com" }, key);
  const again = await stripe.customers.create({ email: "a@example.com" }, key);
  expect(again.id).toBe(first.id);
  await expect(stripe.customers.create({ email: "b@example.com" }, key)).rejects.toMatchObject({
    type: "StripeIdempotencyError",
    statusCode: 400,
  });
  faults.add({ kind: "error", method: "POST", path: "/v1/customers" });
  for (const _ of [1, 2])
    await expect(stripe.customers.create({}, { idempotencyKey: "cus:2" })).rejects.toMatchObject({
      statusCode: 500,
    });
  expect((await stripe.customers.create({}, { idempotencyKey: "cus:3" })).id).toMatch(/^cus_/);
});

test("faults: refused, rate limited, unanswered, and done with the answer lost", async () => {
  const { stripe, faults, url } = shop;
  const count = async () => (await stripe.customers.list({ limit: 100 })).data.length;
  const before = await count();
  const create = (options?: Stripe.RequestOptions) =>
    stripe.customers.create({ email: "x@example.com" }, options);

  faults.add({ kind: "rate_limit", path: "/v1/customers" });
  await expect(create()).rejects.toBeInstanceOf(Stripe.errors.StripeRateLimitError);
  // The SDK repeats a request once whose connection was closed, whatever it is told.
  faults.add({ kind: "refuse", method: "POST", path: "/v1/cust*", times: 2 });
  await expect(create()).rejects.toBeInstanceOf(Stripe.errors.StripeConnectionError);
  faults.add({ kind: "timeout", path: "/v1/customers" });
  await expect(create({ timeout: 100 })).rejects.toBeInstanceOf(Stripe.errors.StripeConnectionError);
  expect(await count()).toBe(before);

  faults.add({ kind: "lose_answer", method: "POST", times: 2 });
  await expect(create({ idempotencyKey: "lost" })).rejects.toBeInstanceOf(
    Stripe.errors.StripeConnectionError,
  );
  expect(faults.pending()).toEqual([]);
  await create({ idempotencyKey: "lost" });
  expect(await count()).toBe(before + 1);

  await fetch(`${url}/_sim/faults`, { method: "POST", body: JSON.stringify({ kind: "refuse", times: 5 }) });
  expect(faults.pending()).toHaveLength(1);
  await fetch(`${url}/_sim/faults`, { method: "DELETE" });
  expect(await count()).toBe(before + 1);
});

test("lists come in pages, newest first; references expand to four levels", async () => {
  const { stripe, prices } = shop;
  for (const name of ["a", "b", "c"]) await stripe.customers.create({ name, metadata: { group: "pages" } });
  const names = [];
  for await (const { name } of stripe.customers.list({ limit: 2 })) names.push(name);
  expect(names).toEqual(["c", "b", "a", null]);
  const found = await stripe.customers.search({ query: "metadata['group']:'pages' AND name:'b'" });
  expect(found.data).toMatchObject([{ name: "b" }]);

  const { id } = await subscribe(shop, prices.annual.id);
  const expanded = await stripe.subscriptions.retrieve(id, {
    expand: ["items.data.price.product", "customer"],
  });
  expect(expanded).toMatchObject({ customer: { email: "ada@example.com" } });
  expect(expanded.items.data[0]!.price.product).toMatchObject({ name: "Pro" });
  await expect(stripe.subscriptions.retrieve(id, { expand: ["color"] })).rejects.toThrow(
    /cannot be expanded/,
  );
  await expect(stripe.subscriptions.list({ expand: ["data.items.data.price.product"] })).rejects.toThrow(
    /4 levels/,
  );
});

test("prices are found by lookup key, which moves to another price only when it is told to", async () => {
  const { stripe, prices, plan } = shop;
  const find = async () =>
    (await stripe.prices.list({ lookup_keys: ["plan_pro_annual"] })).data.map(({ id }) => id);
  expect(await find()).toEqual([prices.annual.id]);
  const next = { currency: "usd", product: plan.id, unit_amount: 1, lookup_key: "plan_pro_annual" };
  await expect(stripe.prices.create(next)).rejects.toThrow(/already uses that lookup key/);
  const moved = await stripe.prices.create({ ...next, transfer_lookup_key: true });
  expect(await find()).toEqual([moved.id]);
  const unit = (await stripe.prices.retrieve(prices.compute.id)).unit_amount_decimal;
  expect(unit!.eq(Stripe.Decimal.from("0.01"))).toBe(true);
});

test("with a folder, everything outlives a restart: objects, the clock, keys", async () => {
  const dir = await mkdtemp(join(tmpdir(), "berth-stripe-"));
  const first = await openShop({ dir });
  try {
    const { id } = await subscribe(first, first.prices.annual.id);
    await first.stripe.subscriptionItems.create({ subscription: id, price: first.prices.compute.id });
    first.days(20);
    const made = await first.stripe.customers.create({}, { idempotencyKey: "kept" });
    const time = first.clock.now();
    await first.stop();

    const second = await startStripe({ dir });
    try {
      const stripe = clientOf(second.url);
      expect(second.clock.now()).toBeGreaterThanOrEqual(time);
      expect((await stripe.customers.create({}, { idempotencyKey: "kept" })).id).toBe(made.id);
      second.clock.advance(12 * 24 * 60 * 60);
      const [invoice] = (await stripe.invoices.list({ subscription: id })).data;
      expect(invoice).toMatchObject({ billing_reason: "subscription_cycle", status: "paid", total: 0 });
    } finally {
      await second.stop();
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
