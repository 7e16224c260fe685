import { afterAll, beforeAll, expect, test } from "vitest";
import { SubscriptionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { sample } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { type Subscriber, subscriber } from "../cancellation/testing.ts";
import { setMembers } from "../seats/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { atCommit, atRequest, killDuring, type Reach, serveAlone } from "../testing-kills.ts";

let billing: TestBilling;
let service: Awaited<ReturnType<typeof serveAlone>>;
/** A subscription for each kill, bought before. */
const subscriptions: Subscriber[] = [];

const ofChange = (on: "insert" | "update", when: string) => atCommit(on, "plan_changes", when);
const MADE = "new.step = 'done'";
const KILLS: { name: string; change: Record<string, string>; reach: Reach }[] = [
  {
    name: "while a larger plan is requested",
    change: { tierId: "team" },
    reach: atRequest("POST", "/v1/subscriptions/*"),
  },
  { name: "when the larger plan is made", change: { tierId: "team" }, reach: ofChange("update", MADE) },
  {
    name: "while a schedule is made",
    change: { cadence: "annual" },
    reach: atRequest("POST", "/v1/subscription_schedules"),
  },
  {
    name: "while the phases of a schedule are set",
    change: { cadence: "annual" },
    reach: atRequest("POST", "/v1/subscription_schedules/*"),
  },
  { name: "when the schedule is made", change: { cadence: "annual" }, reach: ofChange("update", MADE) },
];

beforeAll(async () => {
  billing = await startBilling();
  const chosen = sample("kills at steps of a change of plan", KILLS, 2);
  for (const _ of [...chosen, "asked", "members", "members", "canceled", "canceled", "seats"])
    subscriptions.push(await subscriber(billing, { cadence: "monthly" }));
  service = await serveAlone(billing);
});
afterAll(() => billing?.stop());

/** Changes the plan in the service's process, kills that at a point, and starts it again. */
const changeAndKill = ({ accountId }: Subscriber, change: object, reach: Reach) =>
  killDuring(billing, service, reach, () =>
    billing.as(accountId, service.port).updateSubscription({ accountId, ...change }),
  );

test("killed before the change is recorded: nothing has happened, and it can be requested again", async () => {
  const one = subscriptions.pop()!;
  const { accountId } = one;
  await changeAndKill(one, { tierId: "team" }, ofChange("insert", "true"));
  expect(await one.invoices()).toHaveLength(1);
  const again = await billing.as(accountId, service.port).updateSubscription({ accountId, tierId: "team" });
  expect(again).toMatchObject({ effect: "now", tierId: "team" });
  expect(await one.invoices()).toHaveLength(2);
});

test.each(sample("kills at steps of a change of plan", KILLS, 2))(
  "killed $name: it goes on, is made once, and is reported once",
  async ({ change, reach }) => {
    const one = subscriptions.pop()!;
    const { accountId } = one;
    await changeAndKill(one, change, reach);
    const isNow = change.tierId !== undefined;
    await eventually("it is recorded as made", async () => {
      const text = "select step from plan_changes where account_id = $1";
      const { rows } = await billing.pool.query<{ step: string }>(text, [accountId]);
      return rows.length === 1 && rows[0]!.step === "done";
    });
    const reported = async () =>
      (await billing.published(SubscriptionChangedSchema, accountId))
        .map((event) => event.change)
        .filter(Boolean);
    await eventually("it is reported", async () => (await reported()).length > 0);
    expect(await reported()).toEqual([isNow ? "plan_changed" : "change_scheduled"]);
    const found = await billing.as(accountId, service.port).getSubscription({ accountId });
    expect(found.items.find(({ kind }) => kind === "plan")?.ref).toBe(isNow ? "team" : "pro");
    expect(found.pendingChange?.cadence).toBe(isNow ? undefined : "annual");
    expect(await one.invoices()).toHaveLength(isNow ? 2 : 1);
  },
);

test.each([
  { name: "is requested", change: { tierId: "team" }, reach: KILLS[0]!.reach, members: 12 },
  { name: "is recorded", change: { cadence: "annual" }, reach: KILLS[4]!.reach, members: 5 },
])("killed while a change $name: members who join before it goes on are billed with it", async (kill) => {
  const one = subscriptions.pop()!;
  const { accountId } = one;
  await changeAndKill(one, kill.change, async (with_) => {
    const { reached, over } = await kill.reach(with_);
    return { reached, over: () => over().then(() => setMembers(billing, accountId, kill.members)) };
  });
  await eventually("it is recorded as made", async () => {
    const text = "select from plan_changes where account_id = $1 and step = 'done'";
    return (await billing.pool.query(text, [accountId])).rows.length === 1;
  });
  // Two more than the plan includes.
  await eventually("both members are billed", async () => {
    const { items, schedule } = await billing.stripe.stripe.subscriptions.retrieve(one.id, {
      expand: ["schedule"],
    });
    const planned = (schedule as { metadata: { seats?: string } } | null)?.metadata.seats;
    const billed = items.data.find(({ price }) => price.metadata.kind === "seat")?.quantity;
    return (planned ?? String(billed)) === "2";
  });
});

test.each([
  { name: "a larger plan", change: { tierId: "team" }, reach: KILLS[0]!.reach },
  { name: "another cadence", change: { cadence: "annual" }, reach: KILLS[2]!.reach },
])("killed while $name is requested, and canceled before it goes on: it is given up", async (kill) => {
  const one = subscriptions.pop()!;
  const { accountId } = one;
  await changeAndKill(one, kill.change, kill.reach);
  const owner = billing.as(accountId, service.port);
  expect(await owner.cancelSubscription({ accountId })).toMatchObject({ status: "canceled" });
  await eventually("it is at its end", async () => {
    const text = "select from plan_changes where account_id = $1 and step in ('done', 'refused')";
    return (await billing.pool.query(text, [accountId])).rows.length === 1;
  });
  const { items, schedule, cancel_at_period_end, cancel_at } = await one.atStripe();
  expect(items.data.find(({ price }) => price.metadata.kind === "plan")?.price.metadata.tierId).toBe("pro");
  expect([schedule, cancel_at_period_end || cancel_at !== null]).toEqual([null, true]);
  expect(await one.invoices()).toHaveLength(1);
});

test("killed when a larger plan is made: a member who joins and leaves before it is recorded has paid for the seat", async () => {
  const one = subscriptions.pop()!;
  const { accountId } = one;
  const setNext = (at: string) =>
    billing.pool.query("update plan_changes set next_at = $2 where account_id = $1", [accountId, at]);
  await changeAndKill(one, { tierId: "team" }, async (with_) => {
    const { reached, over } = await ofChange("update", MADE)(with_);
    return {
      reached,
      over: () =>
        over()
          .then(() => setNext("infinity"))
          .then(() => {}),
    };
  });
  const owner = billing.as(accountId, service.port);
  await eventually("the larger plan is known", async () => {
    const { items } = await owner.getSubscription({ accountId });
    return items.some(({ kind, ref }) => kind === "plan" && ref === "team");
  });
  const become = async (members: number, seats: number) => {
    await setMembers(billing, accountId, members);
    await eventually(`${seats} members are billed`, async () => {
      const { items } = await one.atStripe();
      return (items.data.find(({ price }) => price.metadata.kind === "seat")?.quantity ?? 0) === seats;
    });
  };
  const charged = async () =>
    (await billing.stripe.stripe.invoiceItems.list({ customer: one.customer })).data.length;
  await become(11, 1);
  const before = await charged();
  await become(10, 0);
  await setNext("-infinity");
  await eventually("it is recorded as made", async () => {
    const text = "select from plan_changes where account_id = $1 and step = 'done'";
    return (await billing.pool.query(text, [accountId])).rows.length === 1;
  });
  await become(11, 1);
  expect(await charged()).toBe(before);
});
