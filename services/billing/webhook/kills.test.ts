import { afterAll, beforeAll, expect, test } from "vitest";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { sample } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { webhookScene } from "./testing.ts";

let billing: TestBilling;
let scene: ReturnType<typeof webhookScene>;
let victim: Awaited<ReturnType<TestBilling["process"]>>;

beforeAll(async () => {
  billing = await startBilling();
  scene = webhookScene(billing);
  await billing.stopOwn();
  victim = await billing.process();
});
afterAll(() => billing?.stop());

/** Opens the page on which an account pays; paying is what the test does next. */
async function openCheckout() {
  const accountId = billing.account();
  const { checkoutUrl } = await billing
    .as(accountId, victim.port)
    .createSubscription({ accountId, tierId: "pro", cadence: "annual" });
  return { accountId, pay: () => billing.pay(checkoutUrl) };
}

/** Starts billing again, and waits until all that follows from the payment is there, each once. */
async function recovers(accountId: string): Promise<void> {
  await victim.run();
  await billing.stripe.webhooks.flush();
  await eventually("all is recorded", async () => {
    // The lease of the process that was killed is over, and so is the pause after a failure.
    await billing.pool.query("update due_customers set next_at = now(), leased_until = null");
    const { subscriptions, invoices } = await scene.mirrorOf(accountId);
    const [row] = subscriptions as { status: string; compute_start: unknown }[];
    const isWhole = row?.status === "active" && row.compute_start !== null && invoices.length === 1;
    return isWhole && (await scene.count("due_customers")) === 0;
  });
  const told = await eventually("the plan is told", async () => {
    const found = await billing.published(TierChangedSchema, accountId);
    return found.length > 0 && found;
  });
  expect(told.map(({ tier, revision }) => [tier, revision])).toEqual([["pro", 1n]]);
  const { data } = await billing.stripe.stripe.subscriptions.list({
    customer: await scene.customerOf(accountId),
  });
  expect(data[0]!.items.data.map(({ price }) => price.metadata.kind).toSorted()).toEqual(["compute", "plan"]);
  const { rows } = await billing.pool.query("select from metered_periods where account_id = $1", [accountId]);
  expect(rows).toHaveLength(1);
}

const COMMITS = [
  ["insert", "stripe_events", "true"],
  ["insert", "subscriptions", "true"],
  ["insert", "accounts", "true"],
  ["insert", "invoices", "true"],
  ["update", "subscriptions", "new.compute_start is not null and old.compute_start is null"],
  ["insert", "metered_periods", "true"],
  ["update", "metered_periods", "true"],
  ["delete", "due_customers", "true"],
] as const;

test.each(sample("kills at what follows from a payment", COMMITS, 2))(
  "killed as the %s of %s is committed: all follows once, whether it was kept or not",
  async (on, table, when) => {
    for (const outcome of ["lost", "kept"] as const) {
      const { accountId, pay } = await openCheckout();
      const held = await holdCommits(billing, on, table, when);
      await pay();
      await held.reached();
      await victim.end("SIGKILL");
      await held.release(outcome);
      await recovers(accountId);
    }
  },
);

const CALLS = [
  ["GET", "/v1/subscriptions"],
  ["GET", "/v1/invoices"],
  ["POST", "/v1/subscription_items"],
] as const;

test.each(sample("kills while the provider has not answered", CALLS, 1))(
  "killed while %s %s has no answer, done or not: all follows once",
  async (method, path) => {
    for (const kind of ["timeout", "lose_answer"] as const) {
      const { accountId, pay } = await openCheckout();
      billing.stripe.faults.add({ kind, method, path });
      await pay();
      await eventually("it was asked", async () => billing.stripe.faults.pending().length === 0);
      await victim.end("SIGKILL");
      await recovers(accountId);
    }
  },
);
