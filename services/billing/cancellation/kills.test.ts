import { afterAll, beforeAll, expect, test } from "vitest";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { sample } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { webhookScene } from "../webhook/testing.ts";
import { DAY, type Subscriber, subscriber } from "./testing.ts";

type Process = Awaited<ReturnType<TestBilling["process"]>>;
type Kill = { name: string; reach: () => Promise<{ reached: Promise<unknown>; over: () => Promise<void> }> };

let billing: TestBilling;
let service: Process;
/** An annual subscription for each kill, bought before. */
const subscriptions: Subscriber[] = [];

/** Right before a change is durable. */
function atCommit(on: "insert" | "update", table: string, when: string): Kill["reach"] {
  return async () => {
    const held = await holdCommits(billing, on, table, when);
    return { reached: held.reached(), over: () => held.release("lost") };
  };
}

/** While the provider is asked, and does not answer. */
function atRequest(method: string, path: string): Kill["reach"] {
  return async () => {
    const { faults } = billing.stripe;
    faults.add({ kind: "timeout", method, path });
    const reached = eventually("the provider is asked", async () => faults.pending().length === 0);
    return { reached, over: async () => faults.clear() };
  };
}

const KILLS: Kill[] = [
  { name: "while the provider is asked to end it", reach: atRequest("DELETE", "/v1/subscriptions/*") },
  {
    name: "when it has ended, and that is not recorded",
    reach: atCommit("update", "cancellations", "new.step = 'ended'"),
  },
  { name: "while open invoices are settled", reach: atRequest("POST", "/v1/invoices/*") },
  {
    name: "when the refund is computed, and that is not recorded",
    reach: atCommit("update", "cancellations", "new.step = 'refunding'"),
  },
  { name: "while the provider is asked to refund", reach: atRequest("POST", "/v1/credit_notes") },
  {
    name: "when it is refunded, and that is not recorded",
    reach: atCommit("update", "refunds", "new.credit_note_id is not null"),
  },
  { name: "at the last step", reach: atCommit("update", "cancellations", "new.step = 'done'") },
];

beforeAll(async () => {
  billing = await startBilling();
  for (const _ of [...KILLS, "asked"]) subscriptions.push(await subscriber(billing));
  const { clock, stripe } = billing.stripe;
  clock.advance(20 * DAY);
  // Something that the last invoice charges.
  for (const { customer, id } of subscriptions)
    await stripe.invoiceItems.create({ customer, subscription: id, amount: 500, currency: "usd" });
  await billing.stopOwn();
  service = await billing.process();
  // A customer whom a process was reading when it was killed is read again only when its lease is over.
  await billing.stripe.webhooks.flush();
  await webhookScene(billing).settled();
});
afterAll(() => billing?.stop());

/** Cancels in the service's process, kills that at a point, and starts it again. */
async function cancelAndKill({ accountId }: Subscriber, reach: Kill["reach"]): Promise<void> {
  // The provider's reports come when the service is back.
  billing.deliverTo(undefined);
  const { reached, over } = await reach();
  const answer = billing.as(accountId, service.port).cancelSubscription({ accountId });
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

test("killed before the cancellation is recorded: nothing has happened, and it can be asked for again", async () => {
  const annual = subscriptions.pop()!;
  await cancelAndKill(annual, atCommit("insert", "cancellations", "true"));
  expect((await annual.atStripe()).status).toBe("active");
  const { accountId } = annual;
  const again = await billing.as(accountId, service.port).cancelSubscription({ accountId });
  expect(again.refund?.amountUsd).toBe(180);
  expect(await annual.refunds()).toEqual([18_000]);
});

test.each(sample("kills at steps of a cancellation", KILLS, 2))(
  "killed $name: it goes on, and is refunded once",
  async ({ reach }) => {
    const annual = subscriptions.pop()!;
    await cancelAndKill(annual, reach);
    await eventually("the cancellation is done", async () => (await annual.step()) === "done");
    expect((await annual.atStripe()).status).toBe("canceled");
    expect(await annual.refunds()).toEqual([18_000]);
    expect(await annual.notes()).toHaveLength(1);
    const last = (await annual.invoices()).filter(({ amount_due }) => amount_due === 500);
    expect(last.map(({ status }) => status)).toEqual(["paid"]);
    await annual.told(["refunded", 18_000n]);
    await annual.isFree();
  },
);
