import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import Stripe from "stripe";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startStripe } from "./start.ts";
import { clientOf, openShop, type Shop, subscribe } from "./testing.ts";

const SECRET = "whsec_test";

let shop: Shop;
let receiver: Awaited<ReturnType<typeof startReceiver>>;
beforeEach(async () => {
  receiver = await startReceiver();
  shop = await openShop({ webhookUrl: receiver.url, secret: SECRET });
  await shop.webhooks.flush();
  receiver.events.length = 0;
});
afterEach(async () => {
  await shop.stop();
  await receiver.stop();
});

/** Starts a server that takes events like the platform: 400 for a wrong signature. */
async function startReceiver() {
  const { webhooks } = new Stripe("sk_test_receiver");
  const events: Stripe.Event[] = [];
  const state = { status: 200, refused: 0 };
  const server = createServer(async (request, response) => {
    try {
      const event = webhooks.constructEvent(
        await text(request),
        String(request.headers["stripe-signature"]),
        SECRET,
      );
      if (state.status === 200) events.push(event);
      response.writeHead(state.status).end();
    } catch {
      state.refused++;
      response.writeHead(400).end();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks/stripe`,
    events,
    state,
    stop: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

const typesOf = (events: Stripe.Event[]) => events.map(({ type }) => type);

test("what happens is sent in order, signed; the same events are listed", async () => {
  const { stripe, prices, webhooks } = shop;
  const { id } = await subscribe(shop, prices.annual.id);
  await webhooks.flush();
  expect(typesOf(receiver.events)).toEqual([
    "payment_method.attached",
    "customer.subscription.created",
    "invoice.created",
    "invoice.finalized",
    "invoice_payment.paid",
    "invoice.paid",
    "invoice.payment_succeeded",
    "customer.subscription.updated",
    "checkout.session.completed",
  ]);
  expect(receiver.events.at(-2)!.data).toMatchObject({
    object: { id, status: "active" },
    previous_attributes: { status: "incomplete" },
  });
  const listed = await stripe.events.list({
    types: ["invoice.*", "checkout.session.completed"],
    delivery_success: true,
  });
  expect(typesOf(listed.data)).toEqual([
    "checkout.session.completed",
    "invoice.payment_succeeded",
    "invoice.paid",
    "invoice.finalized",
    "invoice.created",
  ]);
  const [last] = receiver.events.slice(-1);
  expect((await stripe.events.retrieve(last!.id)).created).toBe(last!.created);
});

test("an event that is not answered 2xx is sent again, later", async () => {
  const { stripe, webhooks, clock } = shop;
  receiver.state.status = 503;
  await stripe.customers.create({ email: "a@example.com" });
  await webhooks.pump();
  expect(webhooks.pending()).toMatchObject([{ attempts: 1 }]);
  expect((await stripe.events.list({ delivery_success: false })).data).toMatchObject([
    { type: "customer.created" },
  ]);
  receiver.state.status = 200;
  clock.advance(60);
  await webhooks.pump();
  expect(webhooks.pending()).toEqual([]);
  expect(typesOf(receiver.events)).toEqual(["customer.created"]);
});

test("deliveries are dropped, doubled, reordered, tampered with and delayed", async () => {
  const { stripe, webhooks, url } = shop;
  const create = async (...names: string[]) => {
    for (const name of names) await stripe.customers.create({ name });
    await webhooks.pump();
    return receiver.events.splice(0).map(({ data }) => (data.object as Stripe.Customer).name);
  };
  webhooks.set({ drop: 1 });
  expect(await create("lost", "b")).toEqual(["b"]);
  webhooks.set({ duplicate: 1 });
  expect(await create("c", "d")).toEqual(["c", "c", "d"]);
  webhooks.set({ reorder: 3 });
  expect(await create("e", "f", "g")).toEqual(["g", "f", "e"]);
  webhooks.set({ tamper: 1 });
  expect(await create("h")).toEqual([]);
  expect(receiver.state.refused).toBe(1);
  await webhooks.flush();
  expect(typesOf(receiver.events.splice(0))).toEqual(["customer.created"]);
  webhooks.set({ delay_ms: 50 });
  expect(await create("i")).toEqual(["i"]);
  const set = await fetch(`${url}/_sim/webhooks`, {
    method: "POST",
    body: JSON.stringify({ drop: 2, delay_ms: 0 }),
  });
  expect(await set.json()).toMatchObject({ switches: { drop: 2, delay_ms: 0 } });
  expect((await fetch(`${url}/_sim/webhooks`, { method: "POST", body: '{"lose":1}' })).status).toBe(400);
});

test("an endpoint gets the types that it asked for, and its secret is shown once", async () => {
  const { stripe, webhooks } = shop;
  const other = await startReceiver();
  try {
    const made = await stripe.webhookEndpoints.create({
      url: other.url,
      enabled_events: ["product.created"],
      api_version: Stripe.API_VERSION,
    });
    expect(made.secret).toMatch(/^whsec_/);
    const listed = await stripe.webhookEndpoints.list();
    expect(listed.data.map(({ url, secret }) => ({ url, secret }))).toEqual([
      { url: other.url },
      { url: receiver.url },
    ]);
    await stripe.webhookEndpoints.update(made.id, { enabled_events: ["customer.created"] });
    await stripe.customers.create({});
    await webhooks.pump();
    expect(webhooks.pending()).toMatchObject([{ endpoint: made.id }]);
    expect(other.state.refused).toBe(1);
  } finally {
    await other.stop();
  }
});

test("a restart for another address sends there what waits, and nothing to the former one", async () => {
  const dir = await mkdtemp(join(tmpdir(), "berth-stripe-"));
  const former = await startReceiver();
  former.state.status = 503;
  let running = await startStripe({ dir, webhookUrl: former.url, secret: SECRET });
  try {
    await clientOf(running.url).customers.create({ name: "waits" });
    await running.webhooks.flush();
    await running.stop();
    former.state.status = 200;
    running = await startStripe({ dir, webhookUrl: receiver.url, secret: SECRET });
    await clientOf(running.url).customers.create({ name: "new" });
    await running.webhooks.flush();
    const names = ({ data }: Stripe.Event) => (data.object as Stripe.Customer).name;
    expect([former.events.map(names), receiver.events.map(names).sort()]).toEqual([[], ["new", "waits"]]);
    expect(running.webhooks.pending()).toEqual([]);
  } finally {
    await running.stop();
    await former.stop();
    await rm(dir, { recursive: true, force: true });
  }
});
