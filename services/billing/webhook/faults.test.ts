import { afterAll, beforeAll, expect, test } from "vitest";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { webhookScene } from "./testing.ts";

const MINUTE = 60;

let billing: TestBilling;
let scene: ReturnType<typeof webhookScene>;

beforeAll(async () => {
  billing = await startBilling();
  scene = webhookScene(billing);
});
afterAll(() => billing?.stop());

/** Waits until an account has all that follows from its payment, each once, without waiting for pauses. */
async function isSubscribed(accountId: string): Promise<void> {
  await eventually("compute is attached and all is recorded", async () => {
    await billing.pool.query(
      "update due_customers set next_at = now() where attempts = 0 or next_at < now() + interval '30 s'",
    );
    const { subscriptions } = await scene.mirrorOf(accountId);
    const [row] = subscriptions as { status: string; compute_start: unknown }[];
    return (
      row?.status === "active" && row.compute_start !== null && (await scene.count("due_customers")) === 0
    );
  });
  await expectOnce(billing, accountId);
}

/** Asserts that an account is told of its plan once, and that its subscription has one compute item. */
async function expectOnce(berth: TestBilling, accountId: string): Promise<void> {
  const told = await eventually("the plan is told", async () => {
    const found = await berth.published(TierChangedSchema, accountId);
    return found.length > 0 && found;
  });
  expect(told.map(({ tier, revision }) => [tier, revision])).toEqual([["pro", 1n]]);
  const { data } = await berth.stripe.stripe.subscriptions.list({
    customer: await scene.customerOf(accountId),
  });
  expect(data[0]!.items.data.map(({ price }) => price.metadata.kind).toSorted()).toEqual(["compute", "plan"]);
}

test.each([
  ["doubled", { duplicate: 100 }],
  ["in another order", { reorder: 5 }],
  ["changed on the way", { tamper: 3 }],
  ["late", { delay_ms: 300 }],
])("webhooks that come %s lead to the same state", async (_, switches) => {
  billing.stripe.webhooks.set(switches);
  const accountId = await scene.paid();
  await billing.stripe.webhooks.flush();
  // What was refused is sent again.
  billing.stripe.clock.advance(10 * MINUTE);
  billing.stripe.webhooks.set({ drop: 0, duplicate: 0, reorder: 0, tamper: 0, delay_ms: 0 });
  await billing.stripe.webhooks.flush();
  await isSubscribed(accountId);
});

test("webhooks that come ten minutes late come after the reconciler, and change nothing", async () => {
  billing.deliverTo(undefined);
  const accountId = await scene.paid();
  billing.stripe.clock.advance(16 * MINUTE);
  await isSubscribed(accountId);
  billing.deliverTo(billing.port);
  billing.stripe.clock.advance(10 * MINUTE);
  await billing.stripe.webhooks.flush();
  await isSubscribed(accountId);
});

const CALLS = [
  ["GET", "/v1/subscriptions"],
  ["GET", "/v1/invoices"],
  ["POST", "/v1/subscription_items"],
] as const;
const KINDS = ["refuse", "error", "rate_limit", "lose_answer"] as const;

test.each(CALLS.flatMap(([method, path]) => KINDS.map((kind) => [kind, method, path] as const)))(
  "the provider fails (%s) at %s %s: it is tried again, and nothing is made twice",
  async (kind, method, path) => {
    const accountId = billing.account();
    const owner = billing.as(accountId);
    const { checkoutUrl } = await owner.createSubscription({ accountId, tierId: "pro" });
    // The SDK repeats a request that fails.
    billing.stripe.faults.add({ kind, method, path, times: 2 });
    await billing.pay(checkoutUrl);
    await isSubscribed(accountId);
    expect(billing.stripe.faults.pending()).toEqual([]);
  },
);

test("the provider hangs while compute is attached: it is tried again, and there is one item", async () => {
  const accountId = billing.account();
  const { checkoutUrl } = await billing.as(accountId).createSubscription({ accountId, tierId: "pro" });
  billing.stripe.faults.add({ kind: "timeout", method: "POST", path: "/v1/subscription_items", times: 2 });
  await billing.pay(checkoutUrl);
  await isSubscribed(accountId);
});
