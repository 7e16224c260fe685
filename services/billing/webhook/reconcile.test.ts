import { afterAll, beforeAll, expect, test } from "vitest";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { webhookScene } from "./testing.ts";

const MINUTE = 60;
const DAY = 86_400;
const NIGHT = 3 * 3_600;
const ALL = 1_000;

let billing: TestBilling;
let scene: ReturnType<typeof webhookScene>;
/** When the tests begin (s): a pass is due then. */
let evening: number;

beforeAll(async () => {
  billing = await startBilling();
  scene = webhookScene(billing);
  // A night falls between these tests, at whatever time they run.
  const { clock } = billing.stripe;
  clock.advance(DAY - (clock.now() % DAY) + NIGHT - 40 * MINUTE);
  evening = clock.now();
});
afterAll(() => billing?.stop());

const advance = (seconds: number) => billing.stripe.clock.advance(seconds);
const drop = (count: number) => billing.stripe.webhooks.set({ drop: count });
/** Waits until a reconciliation has been done at the present time of the provider. */
const reconciled = (name: "events" | "customers", after: number) =>
  eventually(`${name} are compared`, async () => {
    const text = "select from reconciliations where name = $1 and done_until >= to_timestamp($2)";
    return (await billing.pool.query(text, [name, after])).rowCount === 1;
  });
const tierOf = async (accountId: string) => {
  const { rows } = await billing.pool.query("select tier from accounts where id = $1", [accountId]);
  return rows[0]?.tier as string | undefined;
};
const becomes = (accountId: string, tier: string) =>
  eventually(`the account is on ${tier}`, async () => (await tierOf(accountId)) === tier);
/** Has all customers who are due read now, however they were spread. */
const hurry = () => billing.pool.query("update due_customers set next_at = now()");
const lines = (text: string) => billing.logLines.filter((line) => line.includes(text)).length;

test("what no webhook told is known a quarter of an hour later, whichever types it is of", async () => {
  await reconciled("events", evening);
  drop(ALL);
  const accountId = await scene.paid("annual");
  drop(0);
  expect(await tierOf(accountId)).toBeUndefined();
  advance(16 * MINUTE);
  const began = billing.stripe.clock.now();
  await reconciled("events", began);
  await becomes(accountId, "pro");
  await eventually("compute is attached", async () => {
    const { items } = await billing.as(accountId).getSubscription({ accountId });
    return items.some(({ kind }) => kind === "compute");
  });
  expect(lines("did not arrive")).toBe(1);
  const events = await scene.count("stripe_events");
  expect(events).toBeGreaterThan(3);
  expect(await billing.published(TierChangedSchema, accountId)).toHaveLength(1);
});

test("webhooks that arrived are not counted as missed, and are read for once", async () => {
  const accountId = await scene.paid();
  await becomes(accountId, "pro");
  await scene.settled();
  const before = lines("did not arrive");
  advance(16 * MINUTE);
  const began = billing.stripe.clock.now();
  await reconciled("events", began);
  expect(lines("did not arrive")).toBe(before);
});

test("more events than a page holds are all found", async () => {
  await scene.settled();
  drop(10_000);
  const customer = await scene.customerOf(await scene.paid());
  for (let n = 0; n < 130; n++)
    await billing.stripe.stripe.customers.update(customer, { description: `change ${n}` });
  drop(0);
  advance(16 * MINUTE);
  const began = billing.stripe.clock.now();
  await reconciled("events", began);
  const { rows } = await billing.pool.query(
    "select count(*)::int as n from stripe_events where customer_id = $1 and type = 'customer.updated'",
    [customer],
  );
  expect(rows[0].n).toBeGreaterThanOrEqual(130);
});

test("the provider is away at the time of a pass: it is done a minute later, and misses nothing", async () => {
  drop(ALL);
  const accountId = await scene.paid();
  billing.stripe.faults.add({ kind: "error", path: "/v1/events", times: 4 });
  advance(16 * MINUTE);
  const began = billing.stripe.clock.now();
  await eventually("a pass failed", async () => lines('"task":"reconcile"') > 0);
  drop(0);
  await eventually("the next pass is done", async () => {
    const text =
      "select extract(epoch from next_at)::int as next, done_until >= to_timestamp($1) as done from reconciliations where name = 'events'";
    const [row] = (await billing.pool.query(text, [began])).rows;
    // A pass that is under way is due in 15 minutes, one that failed in one.
    const until = row.next - billing.stripe.clock.now();
    if (until > 0 && until <= MINUTE) advance(until);
    return row.done;
  });
  await becomes(accountId, "pro");
});

test("at night the customers are read of whom something may change, and no others", async () => {
  const ended = await scene.paid();
  const runs = await scene.paid();
  await Promise.all([becomes(ended, "pro"), becomes(runs, "pro")]);
  const [subscription] = (
    await billing.stripe.stripe.subscriptions.list({ customer: await scene.customerOf(ended) })
  ).data;
  await billing.stripe.stripe.subscriptions.cancel(subscription!.id);
  await becomes(ended, "free");
  await scene.settled();
  // Found by no event: what Berth records was changed by someone.
  await billing.pool.query(
    "update subscriptions set status = 'unpaid', payment_method = null where account_id = $1",
    [runs],
  );
  advance(DAY);
  const before = billing.stripe.clock.now();
  await reconciled("customers", before);
  const marked = (await billing.pool.query("select customer_id from due_customers")).rows.map(
    (row) => row.customer_id,
  );
  expect(marked).not.toContain(await scene.customerOf(ended));
  await hurry();
  await eventually("it is corrected", async () => {
    const [row] = (await scene.mirrorOf(runs)).subscriptions as { status: string }[];
    return row?.status === "active";
  });
});

test("a night's pass that fails has no customers read, however often it is tried again", async () => {
  const accountId = await scene.paid();
  await becomes(accountId, "pro");
  await scene.settled();
  const failed = lines('"task":"reconcile"');
  // One pass: the SDK repeats a request that fails.
  billing.stripe.faults.add({ kind: "error", path: "/v1/disputes", times: 2 });
  advance(DAY);
  await eventually("the pass failed", async () => lines('"task":"reconcile"') > failed);
  expect((await billing.pool.query("select customer_id from due_customers")).rows).toEqual([]);
  advance(2 * MINUTE);
  await reconciled("customers", billing.stripe.clock.now() - 2 * MINUTE);
  expect((await billing.pool.query("select customer_id from due_customers")).rowCount).toBeGreaterThan(0);
  await hurry();
  await scene.settled();
});

test("after more than 30 days without a pass all customers are read", async () => {
  await scene.settled();
  const accountId = await scene.paid();
  await becomes(accountId, "pro");
  await billing.stopOwn();
  drop(ALL);
  const [subscription] = (
    await billing.stripe.stripe.subscriptions.list({ customer: await scene.customerOf(accountId) })
  ).data;
  await billing.stripe.stripe.subscriptions.cancel(subscription!.id);
  const before = billing.stripe.clock.now();
  advance(40 * DAY);
  const replicas = await Promise.all([billing.startOne(), billing.startOne()]);
  await reconciled("events", before + 30 * DAY);
  await hurry();
  await becomes(accountId, "free");
  await Promise.all(replicas.map((replica) => replica.stop()));
});

test("events, and changes of plans that were made, are kept for 30 days", async () => {
  await billing.pool.query(
    `insert into plan_changes (id, account_id, subscription_id, kind, tier, cadence, seats, charged_from, step, asked_at, next_at)
     select 'pch_' || days, 'acc_1', 'sub_1', 'keep', 'pro', 'monthly', 0, now(), 'done', now() - make_interval(days => days), now()
     from unnest(array[29, 31]) days`,
  );
  await billing.pool.query(
    `insert into stripe_events (id, type, created, received_at)
     select 'evt_old_' || n, 'test', now(), now() - make_interval(days => case when n <= 1500 then 31 else 29 end)
     from generate_series(1, 1501) n`,
  );
  const replica = await billing.startOne();
  advance(DAY);
  const before = billing.stripe.clock.now();
  await reconciled("customers", before);
  await replica.stop();
  const { rows } = await billing.pool.query("select id from stripe_events where id like 'evt_old_%'");
  expect(rows).toEqual([{ id: "evt_old_1501" }]);
  expect((await billing.pool.query("select id from plan_changes")).rows).toEqual([{ id: "pch_29" }]);
});
