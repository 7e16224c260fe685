import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { sample } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { atCommit, atRequest, killDuring, type Reach, serveAlone } from "../testing-kills.ts";
import { DAY, type Subscriber, subscriber } from "./testing.ts";

type Kill = { name: string; reach: Reach };

let billing: TestBilling;
let service: Awaited<ReturnType<typeof serveAlone>>;
let monthly: Subscriber;
/** An annual subscription for each kill, bought before. */
const subscriptions: Subscriber[] = [];

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
  monthly = await subscriber(billing, { cadence: "monthly" });
  const { clock, stripe } = billing.stripe;
  clock.advance(20 * DAY);
  // Something that the last invoice charges.
  for (const { customer, id } of subscriptions)
    await stripe.invoiceItems.create({ customer, subscription: id, amount: 500, currency: "usd" });
  service = await serveAlone(billing);
});
afterAll(() => billing?.stop());

/** Cancels in the service's process, kills that at a point, and starts it again. */
const cancelAndKill = ({ accountId }: Subscriber, reach: Reach) =>
  killDuring(billing, service, reach, () =>
    billing.as(accountId, service.port).cancelSubscription({ accountId }),
  );

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

test("killed before it is in the audit log that a monthly plan is canceled: nothing has happened", async () => {
  const { accountId } = monthly;
  await cancelAndKill(monthly, atCommit("insert", "outbox", "new.subject like '%AuditRecorded%'"));
  expect(await monthly.atStripe()).toMatchObject({ cancel_at_period_end: false, cancel_at: null });
  await billing.as(accountId, service.port).cancelSubscription({ accountId });
  expect(await monthly.atStripe()).toMatchObject({ cancel_at_period_end: true });
  await eventually("it is in the audit log", async () => {
    const records = await billing.published(AuditRecordedSchema, accountId);
    return records.filter(({ action }) => action === "subscription.cancel").length === 1;
  });
});
