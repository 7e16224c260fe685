import { createHmac } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { eventOf, webhookScene } from "./testing.ts";

const [OLD, NEW] = ["whsec_old", "whsec_new"];
const CUSTOMER = { object: "customer", id: "cus_nobody" };
const MINUTE = 60;

let billing: TestBilling;
let scene: ReturnType<typeof webhookScene>;

beforeAll(async () => {
  billing = await startBilling({ STRIPE_WEBHOOK_SECRETS: `${OLD},${NEW}` });
  scene = webhookScene(billing);
});
afterAll(() => billing?.stop());

const stored = async (payload: string) => {
  const text = "select customer_id from stripe_events where id = $1";
  return (await billing.pool.query(text, [JSON.parse(payload).id])).rows;
};
const seconds = () => Math.floor(Date.now() / 1000);

/** Sends a payload that is signed for a time, which the header says in its own way. */
function sendSigned(payload: string, header: string, at: string) {
  const mac = createHmac("sha256", NEW).update(`${at}.${payload}`).digest("hex");
  return scene.gateway().receiveWebhook({ payload: Buffer.from(payload), signature: `${header},v1=${mac}` });
}

test("a webhook that either secret signed is stored, once however often it comes", async () => {
  for (const secret of [OLD, NEW]) {
    const payload = eventOf(CUSTOMER);
    for (const signing of [{ secret }, { secret }, { secret, at: seconds() - 4 * MINUTE }])
      await scene.send(payload, signing);
    expect(await stored(payload)).toEqual([{ customer_id: "cus_nobody" }]);
  }
});

test("what no secret signed, what was changed, what is old and what has no signature is refused and not stored", async () => {
  const payload = eventOf(CUSTOMER);
  const refused = expect.objectContaining({ message: expect.stringContaining("The signature") });
  for (const attempt of [
    () => scene.send(payload, { secret: "whsec_other" }),
    () => scene.send(payload, { secret: OLD }, payload.replace("cus_nobody", "cus_victim")),
    () => scene.send(payload, { secret: OLD }, `${payload} `),
    () => scene.send(payload, { secret: NEW, at: seconds() - 6 * MINUTE }),
    () => scene.gateway().receiveWebhook({ payload: Buffer.from(payload), signature: "" }),
    () => scene.gateway().receiveWebhook({ payload: Buffer.from(payload), signature: "t=1,v1=,v1=00" }),
    () => scene.gateway().receiveWebhook({ payload: Buffer.alloc(0), signature: "" }),
    () => scene.send(payload, { secret: NEW, at: seconds() + 6 * MINUTE }),
    ...["NaN", "Infinity", "", "-1", "0", "1e99", "now"].map(
      (at) => () => sendSigned(payload, `t=${at}`, at),
    ),
    () => sendSigned(payload, `t=1,t=${seconds()}`, String(seconds())),
  ])
    await expect(attempt()).rejects.toThrow(refused);
  expect(await stored(payload)).toEqual([]);
});

/** A signed event, changed in one member. */
const changed = (change: object) => JSON.stringify({ ...JSON.parse(eventOf(CUSTOMER)), ...change });

test.each(
  [
    "no JSON",
    "",
    "null",
    "[]",
    "7",
    '"evt_1"',
    "{}",
    "[".repeat(100_000),
    ...[
      { id: null },
      { id: 7 },
      { id: "" },
      { id: "evt_\u0000" },
      { id: "x".repeat(256) },
      { id: ["evt_1"] },
    ],
    ...[{ type: undefined }, { type: {} }, { object: "customer" }, { livemode: "false" }, { livemode: null }],
    ...[{ created: "now" }, { created: null }, { created: 1e15 }, { created: -1 }, { created: 1.5 }],
    ...[{ data: null }, { data: [] }, { data: { object: null } }, { data: { object: [1] } }, { data: "x" }],
  ].map((shape) => [typeof shape === "string" ? shape : changed(shape)]),
)("a signed body that is no event is refused: %.60s", async (payload) => {
  const refused = expect.objectContaining({ message: expect.stringContaining("is no event") });
  await expect(scene.send(payload, { secret: OLD })).rejects.toThrow(refused);
});

test.each([
  { object: {} },
  { object: { object: "customer", id: 7 } },
  { object: { object: "customer", id: "cus_\u0000" } },
  { object: { customer: { id: { id: "cus_1" } } } },
  { object: { customer: ["cus_1"] }, previous_attributes: null },
  { object: { customer: null }, previous_attributes: { customer: false } },
  { object: { object: "refund", payment_intent: 7 } },
  { object: { object: "dispute" } },
])("an event about nobody whom Berth knows is stored, and nobody is read for it: %j", async (data) => {
  const payload = changed({ id: `evt_${newId("evt").slice(4)}`, data });
  await scene.send(payload, { secret: OLD });
  expect(await stored(payload)).toEqual([{ customer_id: null }]);
});

test("an event of the other mode is answered and not stored", async () => {
  const payload = eventOf(CUSTOMER, { livemode: true });
  await scene.send(payload, { secret: OLD });
  expect(await stored(payload)).toEqual([]);
});

test("an event without a customer is stored, and nobody is read for it", async () => {
  const payload = eventOf(
    { object: "charge", id: "ch_1", customer: null },
    { type: "charge.dispute.created" },
  );
  await scene.send(payload, { secret: OLD });
  expect(await stored(payload)).toEqual([{ customer_id: null }]);
});

test("an event of a mebibyte is stored", async () => {
  const payload = eventOf({ ...CUSTOMER, description: "x".repeat(1024 * 1024) });
  await scene.send(payload, { secret: NEW });
  expect(await stored(payload)).toHaveLength(1);
});

test("whose payment method was detached is read from what was before", async () => {
  const payload = eventOf({ object: "payment_method", id: "pm_1", customer: null }, {
    type: "payment_method.detached",
    data: { object: {}, previous_attributes: { customer: "cus_former" } },
  } as never);
  await scene.send(payload, { secret: NEW });
  expect(await stored(payload)).toEqual([{ customer_id: "cus_former" }]);
});

test("webhooks of customers whom the provider does not know leave nothing behind", async () => {
  await scene.settled();
  expect(await scene.count("customers")).toBe(0);
  const text = await fetch(`http://127.0.0.1:${billing.port}/metrics`).then((answer) => answer.text());
  expect(text).toMatch(/berth_stripe_webhooks_total\{outcome="refused".*\} \d+/);
  expect(text).toMatch(/berth_stripe_mirror_lag_seconds\S* 0\n/);
});

test("webhooks are taken while the provider is away, and what they say is recorded when it is back", async () => {
  const secret = NEW;
  const accountId = billing.account();
  const { checkoutUrl } = await billing.as(accountId).createSubscription({ accountId, tierId: "pro" });
  await billing.pay(checkoutUrl);
  billing.stripe.faults.add({ kind: "refuse", path: "/v1/subscriptions", times: 2 });
  const customer = await scene.customerOf(accountId);
  await scene.send(eventOf({ object: "customer", id: customer }), { secret });
  await eventually("it was tried", async () => billing.stripe.faults.pending().length === 0);
  await eventually("the plan is the one that was paid", async () => {
    const [row] = (await scene.mirrorOf(accountId)).tier as { tier: string }[];
    return row?.tier === "pro";
  });
});
