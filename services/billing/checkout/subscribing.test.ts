import { afterAll, beforeAll, expect, test } from "vitest";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

test("an owner subscribes on the provider's page; the plan follows from the webhook, and compute is attached", async () => {
  const accountId = billing.account(5);
  const owner = billing.as(accountId);
  await expect(owner.getSubscription({ accountId })).rejects.toThrow("no subscription");
  const { checkoutUrl } = await owner.createSubscription({ accountId, tierId: "pro", cadence: "annual" });
  expect(checkoutUrl).toContain(billing.stripe.url);
  expect(await billing.published(TierChangedSchema, accountId)).toEqual([]);
  await billing.pay(checkoutUrl);
  const subscription = await eventually("compute is attached", async () => {
    const found = await owner.getSubscription({ accountId }).catch(() => undefined);
    return found?.items.some(({ kind }) => kind === "compute") && found;
  });
  expect(subscription).toMatchObject({
    accountId,
    status: "active",
    cadence: "annual",
    cancelAtPeriodEnd: false,
  });
  expect(
    subscription.items.map(({ kind, ref, quantity, unitPriceUsd }) => [kind, ref, quantity, unitPriceUsd]),
  ).toEqual([
    ["plan", "pro", 1, 200],
    ["seat", "pro", 2, 100],
    ["compute", "compute", 0, 0.0001],
  ]);
  expect(subscription.invoices).toMatchObject([{ kind: "subscription", status: "paid", totalUsd: 400 }]);
  expect(subscription.paymentMethod).toMatchObject({ brand: "visa", last4: "4242" });
  await eventually("the plan is told", async () => {
    const told = await billing.published(TierChangedSchema, accountId);
    return told.length === 1 && told[0]?.tier === "pro" && told[0].revision === 1n;
  });
  await expect(owner.createSubscription({ accountId, tierId: "team" })).rejects.toThrow("has a subscription");
});
