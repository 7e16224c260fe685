import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { DAY, subscriber } from "../cancellation/testing.ts";
import { subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { closePeriods, dueCents, runFor } from "./testing.ts";

const FAILS_LATER = "4000000000000341";
const CREDIT = 1_000;
const MINUTE = 60;
const HOUR = 60 * MINUTE;

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

/** What is tried again in an hour, which need not pass, is due now. */
const tryAgain = () =>
  billing.pool.query("update metered_periods set next_at = '-infinity' where due_cents is null");

test("compute of a plan that the provider ends, because it is not paid, is charged with the next subscription, once", async () => {
  const failing = await subscriber(billing, { cadence: "monthly", card: FAILS_LATER });
  const { accountId, owner } = failing;
  const { clock } = billing.stripe;
  const plan = (await failing.atStripe()).items.data[0]!;
  clock.advance(plan.current_period_end + 46 * MINUTE - clock.now());
  await closePeriods(billing, accountId, 1);
  clock.advance(20 * MINUTE);
  await eventually("it is past due", async () => (await failing.atStripe()).status === "past_due");
  await runFor(billing, accountId, clock.now(), 5);
  clock.advance(20 * DAY);
  await failing.isFree();
  const ended = (await failing.atStripe()).ended_at!;
  expect(clock.now() - ended).toBeGreaterThan(HOUR);
  await eventually("the ledger has frozen the period", async () => {
    const text = "select from period_statements where account_id = $1 and billed";
    return (await billing.pool.query(text, [accountId])).rowCount === 2;
  });
  await tryAgain();
  await closePeriods(billing, accountId, 2);

  const owed = (dueCents(5) - CREDIT) / 100;
  const preview = await owner.previewCheckout({ accountId, tierId: "pro", cadence: "monthly" });
  expect(preview.owedComputeUsd).toBe(owed);
  expect((await owner.getComputeUsage({ accountId })).owedUsd).toBe(owed);
  const grants = await billing.stripe.stripe.billing.creditGrants.list({ customer: failing.customer });
  expect(grants.data).toEqual([]);

  const again = await subscribe(billing, accountId);
  const usage = await owner.getComputeUsage({ accountId });
  expect([usage.adjustmentUsd, usage.owedUsd]).toEqual([owed, 0]);
  const atStripe = await billing.stripe.stripe.subscriptions.retrieve(again.id);
  const compute = atStripe.items.data.find(({ price }) => price.metadata.kind === "compute")!;
  clock.advance(compute.current_period_end + 46 * MINUTE - clock.now());
  await closePeriods(billing, accountId, 3);
  clock.advance(HOUR);
  const charged = await eventually("compute is charged", async () => {
    const { data } = await billing.stripe.stripe.invoices.list({ subscription: again.id, limit: 10 });
    const lines = data.flatMap(({ lines }) => lines.data);
    return lines.find(
      ({ amount, pricing }) => pricing?.price_details?.price === compute.price.id && amount > 0,
    );
  });
  expect(charged.amount).toBe(dueCents(5) - CREDIT);
});
