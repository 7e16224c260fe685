import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { cancelAsPreviewed, subscriber } from "../cancellation/testing.ts";
import { monthsAfter } from "../pricing/terms.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { dueCents, runFor } from "./testing.ts";

const CREDIT = 1_000;
const MINUTE = 60;

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

test("billing was away for a whole month of compute: canceling in the hour after it charges each second once", async () => {
  const annual = await subscriber(billing);
  const { accountId } = annual;
  const { clock, stripe } = billing.stripe;
  const compute = (await annual.atStripe()).items.data.find(
    ({ price }) => price.metadata.kind === "compute",
  )!;
  const away = { start: compute.current_period_end, end: monthsAfter(compute.current_period_end, 1) };
  await billing.stopOwn();
  billing.deliverTo(undefined);
  await billing.pool.query("update reconciliations set next_at = 'infinity'");
  clock.advance(away.end + 10 * MINUTE - clock.now());
  const replica = await billing.startOne();
  await runFor(billing, accountId, away.start, 25);
  await billing.pool.query("update reconciliations set next_at = '-infinity'");
  const owner = billing.as(accountId, replica.port);
  await eventually("the present period is known", async () => {
    const text = "select from metered_periods where account_id = $1 and started_at = to_timestamp($2)";
    return (await billing.pool.query(text, [accountId, away.end])).rowCount === 1;
  });
  const answer = await cancelAsPreviewed({
    ...annual,
    preview: () => owner.previewCancellation({ accountId }),
    cancel: () => owner.cancelSubscription({ accountId }),
  });
  const due = dueCents(25) - CREDIT;
  expect(answer.charges).toMatchObject([{ kind: "compute", amountUsd: due / 100 }]);
  const { data } = await stripe.invoices.list({ customer: annual.customer });
  expect(data.map(({ amount_paid }) => amount_paid).filter(Boolean)).toEqual([due, 20_000]);
  await replica.stop();
});
