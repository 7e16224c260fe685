import { afterAll, beforeAll, expect, test } from "vitest";
import {
  RefundChangedSchema,
  SubscriptionChangedSchema,
} from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { STREAM } from "../../../kit/events/bus.ts";
import { startBilling, type TestBilling } from "../../testing.ts";
import { DAY, subscriber } from "../testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

test("the end of a plan is reported once and before its refund, also while no webhook arrives", async () => {
  const annual = await subscriber(billing, {});
  billing.stripe.clock.advance(70 * DAY);
  billing.deliverTo(undefined);
  await annual.cancel();
  await annual.told(["refunded", 14_000n]);
  const { accountId } = annual;
  const [refund] = await billing.published(RefundChangedSchema, accountId);
  expect(refund).toMatchObject({ reason: "canceled" });
  const last = async (name: string) =>
    (await billing.manager.streams.getMessage(STREAM, {
      last_by_subj: `berth.billing.v1.${name}.${accountId}`,
    }))!.seq;
  const ends = async () =>
    (await billing.published(SubscriptionChangedSchema, accountId)).filter(
      ({ status }) => status === "canceled",
    );
  expect(await ends()).toMatchObject([{ formerStatus: "active", cadence: "annual", renewalCents: 20_000n }]);
  expect(await last("SubscriptionChanged")).toBeLessThan(await last("RefundChanged"));
  billing.deliverTo(billing.port);
  await billing.stripe.webhooks.flush();
  await annual.isFree();
  expect(await ends()).toHaveLength(1);
});
