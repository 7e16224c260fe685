import { afterAll, beforeAll, expect, test } from "vitest";
import { PricesSupersededSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emitAll } from "../../kit/events/outbox.ts";
import { transaction } from "../../kit/postgres/db.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { legacyUntil, PRICE_VERSION } from "../pricing/price-versions.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { EXPAND, mirrorSubscription } from "./mirror-subscription.ts";
import { remindersOf } from "./reminders.ts";
import { findRecordedSubscriptions, setReminded } from "./sql.ts";
import { subscribe } from "./testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

test("a subscription on a former price list is reported once, with the day until which its prices hold", async () => {
  const accountId = billing.account();
  const { id } = await subscribe(billing, accountId);
  const { stripe, clock } = billing.stripe;
  const found = await stripe.subscriptions.retrieve(id, { expand: EXPAND });
  const from = new Date(clock.now() * 1_000);
  const lists = [
    { version: PRICE_VERSION, from: new Date(0) },
    { version: "2099-01", from },
  ];
  const read = () =>
    transaction(billing.pool, async (tx) => {
      const before = (await findRecordedSubscriptions(tx, [id])).get(id);
      const subscription = mirrorSubscription(accountId, found)!;
      const reminders = remindersOf(before, subscription, clock.now() * 1_000, (version, term) =>
        legacyUntil(version, term, lists),
      );
      await setReminded(tx, id, reminders);
      await emitAll(tx, reminders.events);
    });
  expect(await billing.published(PricesSupersededSchema, accountId)).toEqual([]);
  await read();
  await read();
  const [told, ...more] = await eventually("it is reported", async () => {
    const events = await billing.published(PricesSupersededSchema, accountId);
    return events.length > 0 && events;
  });
  expect(more).toEqual([]);
  expect(told).toMatchObject({ subscriptionId: id, priceVersion: PRICE_VERSION });
  expect(Number(told!.legacyUntil?.seconds)).toBeGreaterThanOrEqual(clock.now() + 60 * 86_400 - 60);
});
