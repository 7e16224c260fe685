import type Stripe from "stripe";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { createRandom } from "../../kit/testing/random.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { webhookScene } from "./testing.ts";

const DAY = 86_400;
const LIVES = 6;

let billing: TestBilling;
let scene: ReturnType<typeof webhookScene>;

beforeAll(async () => {
  billing = await startBilling();
  scene = webhookScene(billing);
});
afterAll(() => billing?.stop());

/** All events of a customer so far, newest first. */
async function eventsOf(customer: string): Promise<Stripe.Event[]> {
  const found: Stripe.Event[] = [];
  for await (const event of billing.stripe.stripe.events.list({ limit: 100 }))
    if (JSON.stringify(event.data).includes(customer)) found.push(event);
  return found;
}

test("any webhooks, in any order, doubled and left out, lead to what the provider says", async () => {
  const random = createRandom(inject("seed"));
  const { stripe } = billing.stripe;
  for (let life = 0; life < LIVES; life++) {
    const accountId = billing.account();
    const { checkoutUrl } = await billing.as(accountId).createSubscription({
      accountId,
      tierId: random.of(["pro", "team"]),
      cadence: random.of(["monthly", "annual"]),
    });
    const customer = await scene.customerOf(accountId);
    const subscription = async () =>
      (await stripe.subscriptions.list({ customer, status: "active" })).data[0];
    billing.stripe.webhooks.set({ drop: 1_000_000 });
    const steps = [
      () => billing.pay(checkoutUrl, random.of(["4242424242424242", "4000000000000341"])),
      () => billing.stripe.clock.advance(random.between(1, 40) * DAY),
      async () => {
        const found = await subscription();
        if (found)
          await stripe.subscriptions.update(found.id, { cancel_at_period_end: random.of([true, false]) });
      },
      async () => {
        const found = await subscription();
        if (found && random.below(2) === 0) await stripe.subscriptions.cancel(found.id);
      },
    ];
    for (const step of steps) {
      await step();
      const events = await eventsOf(customer);
      for (let n = random.below(8); n > 0 && events.length > 0; n--)
        await scene.send(JSON.stringify(random.of(events)));
    }
    billing.stripe.webhooks.set({ drop: 0 });
    // The last one is not lost for good: the reconciler finds it.
    const [last] = await eventsOf(customer);
    await scene.send(JSON.stringify({ ...last, id: `${last!.id}_found` }));
    await isRead(customer);
    const found = await scene.mirrorOf(accountId);
    for (const table of ["subscriptions", "invoices"])
      await billing.pool.query(`delete from ${table} where account_id = $1`, [accountId]);
    await scene.send(JSON.stringify({ ...last, id: `${last!.id}_again` }));
    await isRead(customer);
    expect(await scene.mirrorOf(accountId)).toEqual(found);
    await expectSteady(accountId);
  }
}, 180_000);

/** Waits until a customer has been read, whom the night before may have marked for later. */
async function isRead(customer: string): Promise<void> {
  await eventually("the customer is read", async () => {
    const text =
      "update due_customers set next_at = now() where customer_id = $1 and next_at > now() and attempts <> 1";
    await billing.pool.query(text, [customer]);
    const { rowCount } = await billing.pool.query("select from due_customers where customer_id = $1", [
      customer,
    ]);
    return rowCount === 0;
  });
}

/** Asserts that each TierChanged is a change, that none is missing, and that the last is what the account is on. */
async function expectSteady(accountId: string): Promise<void> {
  const { rows } = await billing.pool.query("select tier, tier_revision from accounts where id = $1", [
    accountId,
  ]);
  const [account] = rows as { tier: string; tier_revision: number }[];
  if (!account) return;
  const told = await eventually("all changes are published", async () => {
    const found = await billing.published(TierChangedSchema, accountId);
    return found.length >= account.tier_revision && found;
  });
  expect(told.map(({ revision }) => Number(revision))).toEqual(told.map((_, index) => index + 1));
  expect(told.at(-1)?.tier).toBe(account.tier);
  for (const [index, { tier }] of told.entries()) expect(told[index - 1]?.tier).not.toBe(tier);
}
