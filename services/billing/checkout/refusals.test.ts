import { afterAll, beforeAll, expect, test } from "vitest";
import { BillingService } from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs } from "../../kit/testing/testing.ts";
import { subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";

const UNAVAILABLE = "502 payment_provider_unavailable";
const NO_SUCH_PLAN = "422 validation_failed invalid_choice";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

test.each([
  [{ tierId: "enterprise" }, "403 tier_not_self_serve"],
  [{ tierId: "free" }, NO_SUCH_PLAN],
  [{ tierId: "gold" }, NO_SUCH_PLAN],
  [{ tierId: "toString" }, NO_SUCH_PLAN],
  [{ tierId: "pro", cadence: "weekly" }, NO_SUCH_PLAN],
])("subscribing to %j is %s", async (choice, expected) => {
  const accountId = billing.account();
  expect(await refused(billing.as(accountId).createSubscription({ accountId, ...choice }))).toBe(expected);
});

test("all of billing is for owners", async () => {
  const accountId = billing.account();
  const editor = clientAs(BillingService, billing.port, { id: "usr_1", role: "editor", accountId });
  for (const { localName } of BillingService.methods) {
    const call = editor[localName as "getCoupon"]({ accountId });
    expect(`${localName} ${await refused(call)}`).toMatch(new RegExp(`^${localName} 403 `));
  }
});

test("an account that has a subscription buys no other, also when billing has not heard of it", async () => {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  const buy = () => owner.createSubscription({ accountId, tierId: "team" });
  await subscribe(billing, accountId);
  expect(await refused(buy())).toBe("409 subscription_exists");
  await billing.pool.query("delete from subscriptions where account_id = $1", [accountId]);
  expect(await refused(buy())).toBe("409 subscription_exists");
});

test("two owners who subscribe at once, in two replicas, come to one page of one customer; another choice ends it", async () => {
  const accountId = billing.account(2);
  const [one, two] = billing.neighbours.accounts.get(accountId)!.members;
  const replica = await billing.startOne();
  const first = clientAs(BillingService, billing.port, { id: one!.userId, role: "owner", accountId });
  const second = clientAs(BillingService, replica.port, { id: two!.userId, role: "owner", accountId });
  const open = (owner: typeof first, tierId: string) => owner.createSubscription({ accountId, tierId });
  const pages = await Promise.all([first, second, first, second].map((owner) => open(owner, "pro")));
  expect(new Set(pages.map(({ checkoutUrl }) => checkoutUrl)).size).toBe(1);
  await Promise.all([open(first, "pro"), open(second, "team")]);
  const { stripe } = billing.stripe;
  const customers = await stripe.customers.search({ query: `metadata['accountId']:'${accountId}'` });
  expect(customers.data).toHaveLength(1);
  const sessions = await stripe.checkout.sessions.list({ customer: customers.data[0]!.id, status: "open" });
  expect(sessions.data).toHaveLength(1);
  await replica.stop();
});

test("the price list cannot be read: that is 502, and once it can, the page opens", async () => {
  const accountId = billing.account();
  const replica = await billing.startOne();
  const buy = () => billing.as(accountId, replica.port).createSubscription({ accountId, tierId: "pro" });
  billing.stripe.faults.add({ kind: "error", path: "/v1/prices", times: 9 });
  expect(await refused(buy())).toBe(UNAVAILABLE);
  billing.stripe.faults.clear();
  expect((await buy()).checkoutUrl).toContain(billing.stripe.url);
  await replica.stop();
});

test("while the provider is away, all that only reads is answered, and nothing else", async () => {
  const accountId = billing.account();
  await subscribe(billing, accountId);
  // A replica of its own: one that was refused too often does not ask for a while.
  const replica = await billing.startOne();
  const owner = billing.as(accountId, replica.port);
  const other = billing.account();
  billing.stripe.faults.add({ kind: "refuse", times: 1_000 });
  try {
    expect(await owner.getSubscription({ accountId })).toMatchObject({ status: "active" });
    await owner.getComputeUsage({ accountId });
    await owner.listComputeUsageLines({ accountId });
    await owner.getCoupon({ accountId });
    for (const call of [
      () => owner.previewCancellation({ accountId }),
      () => owner.cancelSubscription({ accountId }),
      () => owner.redeemCoupon({ accountId, code: "AWAY" }),
      () => owner.removeCoupon({ accountId }),
      () => owner.openBillingPortal({ accountId }),
      () => billing.as(other, replica.port).previewCheckout({ accountId: other, tierId: "pro" }),
      () => billing.as(other, replica.port).createSubscription({ accountId: other, tierId: "pro" }),
    ])
      expect(await refused(call())).toBe(UNAVAILABLE);
  } finally {
    billing.stripe.faults.clear();
    await replica.stop();
  }
});

test("without a provider nothing can be bought, and the log says what to set; usage is shown all the same", async () => {
  const alone = await startBilling({ STRIPE_SECRET_KEY: "", STRIPE_WEBHOOK_SECRETS: "", PUBLIC_ORIGIN: "" });
  const accountId = alone.account();
  const owner = alone.as(accountId);
  expect(await refused(owner.createSubscription({ accountId, tierId: "pro" }))).toBe(UNAVAILABLE);
  expect(alone.logLines.some((line) => line.includes("Set STRIPE_SECRET_KEY"))).toBe(true);
  expect(await refused(owner.redeemCoupon({ accountId, code: "LAUNCH" }))).toBe(UNAVAILABLE);
  expect(await refused(owner.getSubscription({ accountId }))).toBe("404 subscription_not_found");
  expect(await refused(owner.cancelSubscription({ accountId }))).toBe("404 subscription_not_found");
  expect(await refused(owner.openBillingPortal({ accountId }))).toBe("409 no_billing_customer");
  await owner.removeCoupon({ accountId });
  expect((await owner.getComputeUsage({ accountId })).netUsd).toBe(0);
  await alone.stop();
});

test("with a key, billing does not start without the origin to which the provider's pages lead back", async () => {
  await expect(billing.startOne({ PUBLIC_ORIGIN: "" })).rejects.toThrow(
    "STRIPE_SECRET_KEY needs PUBLIC_ORIGIN",
  );
});
