import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { LOCKS } from "../config.ts";
import { startBilling, type TestBilling } from "../testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

test("a provider that hangs is 502 for everybody who needs it, however many wait, and nobody else notices", async () => {
  const accounts = Array.from({ length: LOCKS + 4 }, () => billing.account());
  const buy = (accountId: string) => billing.as(accountId).createSubscription({ accountId, tierId: "pro" });
  billing.stripe.faults.add({ kind: "timeout", times: 1_000 });
  // Two of one account wait for each other besides.
  const waiting = [...accounts, accounts[0]!].map((accountId) => refused(buy(accountId)));
  const accountId = accounts[0]!;
  expect(await billing.as(accountId).getComputeUsage({ accountId })).toMatchObject({ accruedUsd: 0 });
  expect(await billing.as(accountId).getCoupon({ accountId })).toMatchObject({
    pending: { kind: { case: "nullValue" } },
  });
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(["502 payment_provider_unavailable"]));
  billing.stripe.faults.clear();
});
