import { afterAll, beforeAll, expect, test } from "vitest";
import { SubscriptionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { sample } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { type Subscriber, subscriber } from "../cancellation/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { webhookScene } from "../webhook/testing.ts";

type Process = Awaited<ReturnType<TestBilling["process"]>>;
type Reach = () => Promise<{ reached: Promise<unknown>; over: () => Promise<void> }>;

let billing: TestBilling;
let service: Process;
/** A subscription for each kill, bought before. */
const subscriptions: Subscriber[] = [];

/** Right before a change is durable. */
function atCommit(on: "insert" | "update", when: string): Reach {
  return async () => {
    const held = await holdCommits(billing, on, "plan_changes", when);
    return { reached: held.reached(), over: () => held.release("lost") };
  };
}

/** While the provider is asked, and does not answer. */
function atRequest(path: string): Reach {
  return async () => {
    const { faults } = billing.stripe;
    faults.add({ kind: "timeout", method: "POST", path });
    const reached = eventually("the provider is asked", async () => faults.pending().length === 0);
    return { reached, over: async () => faults.clear() };
  };
}

const MADE = "new.step = 'done'";
const KILLS: { name: string; change: Record<string, string>; reach: Reach }[] = [
  {
    name: "while a larger plan is requested",
    change: { tierId: "team" },
    reach: atRequest("/v1/subscriptions/*"),
  },
  { name: "when the larger plan is made", change: { tierId: "team" }, reach: atCommit("update", MADE) },
  {
    name: "while a schedule is made",
    change: { cadence: "annual" },
    reach: atRequest("/v1/subscription_schedules"),
  },
  {
    name: "while the phases of a schedule are set",
    change: { cadence: "annual" },
    reach: atRequest("/v1/subscription_schedules/*"),
  },
  { name: "when the schedule is made", change: { cadence: "annual" }, reach: atCommit("update", MADE) },
];

beforeAll(async () => {
  billing = await startBilling();
  const chosen = sample("kills at steps of a change of plan", KILLS, 2);
  for (const _ of [...chosen, "asked"]) subscriptions.push(await subscriber(billing, { cadence: "monthly" }));
  await billing.stopOwn();
  service = await billing.process();
  // A customer whom a process was reading when it was killed is read again only when its lease is over.
  await billing.stripe.webhooks.flush();
  await webhookScene(billing).settled();
});
afterAll(() => billing?.stop());

/** Changes the plan in the service's process, kills that at a point, and starts it again. */
async function changeAndKill({ accountId }: Subscriber, change: object, reach: Reach): Promise<void> {
  // The provider's reports come when the service is back.
  billing.deliverTo(undefined);
  const { reached, over } = await reach();
  const answer = billing.as(accountId, service.port).updateSubscription({ accountId, ...change });
  const failed = answer.then(
    () => "answered",
    () => "failed",
  );
  await reached;
  await service.end("SIGKILL");
  expect(await failed).toBe("failed");
  await over();
  await service.run();
  billing.deliverTo(service.port);
  await billing.stripe.webhooks.flush();
}

test("killed before the change is recorded: nothing has happened, and it can be requested again", async () => {
  const one = subscriptions.pop()!;
  const { accountId } = one;
  await changeAndKill(one, { tierId: "team" }, atCommit("insert", "true"));
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
