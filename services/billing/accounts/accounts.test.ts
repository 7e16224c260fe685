import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { nodeEnv } from "../../kit/testing/service-process.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";

const COMMAND = join(import.meta.dirname, "../agreement-main.ts");

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

/** Runs the command as an operator does. */
async function agreement(...args: string[]) {
  const env = { ...nodeEnv, DATABASE_URL: billing.env.DATABASE_URL };
  return promisify(execFile)(process.execPath, [COMMAND, ...args], { env }).then(
    ({ stdout }) => ({ code: 0, said: stdout }),
    (error) => ({ code: error.code as number, said: String(error.stderr) }),
  );
}

/** Waits until these plans of an account were published, in this order. */
async function plansBecome(accountId: string, ...tiers: string[]) {
  await eventually(`the plans are ${tiers}`, async () => {
    const told = await billing.published(TierChangedSchema, accountId);
    return told.map(({ tier, revision }) => `${tier} ${revision}`).join() === tiers.join();
  });
}

test("the portal opens for who has bought something, and its URL is in no log", async () => {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  expect(await refused(owner.openBillingPortal({ accountId }))).toBe("409 no_billing_customer");
  await subscribe(billing, accountId);
  const { url } = await owner.openBillingPortal({ accountId });
  expect(url).toContain(billing.stripe.url);
  const page = await (await fetch(url)).text();
  expect(page).toContain(`https://berth.example.com/billing/portal-closed?account=${accountId}`);
  expect(billing.logLines.join("\n")).not.toContain(url.split("/").at(-1));
});

test("while the provider is away, the portal is 502; afterwards it opens", async () => {
  const accountId = billing.account();
  await subscribe(billing, accountId);
  const owner = billing.as(accountId);
  billing.stripe.faults.add({ kind: "rate_limit", path: "/v1/billing_portal/*", times: 9 });
  expect(await refused(owner.openBillingPortal({ accountId }))).toBe("502 payment_provider_unavailable");
  billing.stripe.faults.clear();
  expect((await owner.openBillingPortal({ accountId })).url).toContain(billing.stripe.url);
});

test("an operator puts an account under an agreement: it has the enterprise plan, buys nothing, and comes back", async () => {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  const buy = () => owner.createSubscription({ accountId, tierId: "pro" });
  expect(await agreement(accountId, "on")).toMatchObject({
    code: 0,
    said: expect.stringContaining("now billed"),
  });
  await plansBecome(accountId, "enterprise 1");
  expect(await refused(buy())).toBe("403 direct_agreement");
  expect((await agreement(accountId, "on")).said).toContain("already billed");
  expect((await agreement(accountId, "off")).said).toContain("now not billed");
  await plansBecome(accountId, "enterprise 1", "free 2");
  expect((await buy()).checkoutUrl).toContain(billing.stripe.url);
});

test("an account with a subscription is not put under an agreement, and one never heard of is not taken off one", async () => {
  const accountId = billing.account();
  await subscribe(billing, accountId);
  expect(await agreement(accountId, "on")).toMatchObject({
    code: 1,
    said: expect.stringContaining("has a subscription"),
  });
  const other = billing.account();
  expect((await agreement(other, "off")).said).toContain("already not billed");
  expect(await billing.published(TierChangedSchema, other)).toEqual([]);
});

test("what the provider reports does not end an agreement", async () => {
  const accountId = billing.account();
  await billing.as(accountId).createSubscription({ accountId, tierId: "pro" });
  const { checkoutUrl } = await billing.as(accountId).createSubscription({ accountId, tierId: "pro" });
  await agreement(accountId, "on");
  await billing.pay(checkoutUrl);
  await eventually("it is recorded", async () =>
    billing
      .as(accountId)
      .getSubscription({ accountId })
      .catch(() => undefined),
  );
  await plansBecome(accountId, "enterprise 1");
});

test.each([
  [],
  ["acc_1", "on"],
  ["usr_01k9h2v8x0e6t9v3mzj4qf7c2a", "on"],
  ["acc_01k9h2v8x0e6t9v3mzj4qf7c2a", "yes"],
])("the command explains itself when it is called with %j", async (...args) => {
  expect(await agreement(...args)).toMatchObject({
    code: 2,
    said: expect.stringContaining("npm run agreement"),
  });
});
