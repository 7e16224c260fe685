import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { buy, subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

const UNAVAILABLE = "502 payment_provider_unavailable";

/** An account with what tests ask about its customer. */
function shopper() {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  const { stripe } = billing.stripe;
  return {
    accountId,
    open: () => owner.createSubscription({ accountId, tierId: "pro" }),
    openPortal: () => owner.openBillingPortal({ accountId }),
    /** Returns the customers that the provider has for the account. */
    async customers(): Promise<string[]> {
      const { data } = await stripe.customers.search({ query: `metadata['accountId']:'${accountId}'` });
      return data.map(({ id }) => id);
    },
    /** Returns the customer that billing has recorded. */
    async recorded(): Promise<string | undefined> {
      const text = "select customer_id as id from customers where account_id = $1";
      return (await billing.pool.query<{ id: string }>(text, [accountId])).rows[0]?.id;
    },
  };
}

test.each(
  ["POST /v1/customers", "GET /v1/customers/search"].flatMap((request) =>
    (["refuse", "error", "rate_limit", "lose_answer"] as const).map((kind) => [kind, request] as const),
  ),
)("the provider fails (%s) at %s: that is 502, and the next time there is one customer", async (kind, at) => {
  const [method, path] = at.split(" ") as [string, string];
  const { open, customers, recorded } = shopper();
  // The SDK repeats some of the requests that fail.
  billing.stripe.faults.add({ kind, method, path, times: 9 });
  expect(await refused(open())).toBe(UNAVAILABLE);
  billing.stripe.faults.clear();
  await open();
  expect(await customers()).toEqual([await recorded()]);
});

test("a customer that was made before a crash, and so is not recorded, is found", async () => {
  const { accountId, open, customers, recorded } = shopper();
  const { id } = await billing.stripe.stripe.customers.create({ metadata: { accountId } });
  await open();
  expect(await recorded()).toBe(id);
  expect(await customers()).toEqual([id]);
});

test("a customer of whom billing has lost its record is recorded again by a webhook", async () => {
  const { accountId, recorded } = shopper();
  await subscribe(billing, accountId);
  const customer = (await recorded())!;
  await billing.pool.query("delete from customers where account_id = $1", [accountId]);
  await billing.stripe.stripe.customers.update(customer, { description: "found again" });
  await eventually("it is recorded", async () => (await recorded()) === customer);
});

test("a customer who is deleted at the provider is forgotten, and the next checkout makes another", async () => {
  const { accountId, open, openPortal, customers, recorded } = shopper();
  await open();
  const former = (await recorded())!;
  await billing.stripe.stripe.customers.del(former);
  await eventually("it is forgotten", async () => (await recorded()) === undefined);
  expect(await refused(openPortal())).toBe("409 no_billing_customer");
  await subscribe(billing, accountId);
  expect(await recorded()).not.toBe(former);
  expect(await customers()).toEqual([await recorded()]);
});

test("with its customer an account's subscription ends, and it can buy another", async () => {
  const { accountId, recorded } = shopper();
  const { id } = await subscribe(billing, accountId);
  await billing.stripe.stripe.customers.del((await recorded())!);
  await eventually("it is forgotten", async () => (await recorded()) === undefined);
  const owner = billing.as(accountId);
  expect(await refused(owner.getSubscription({ accountId }))).toBe("404 subscription_not_found");
  expect((await subscribe(billing, accountId)).id).not.toBe(id);
});

test.each(["open", "openPortal"] as const)(
  "no report came of a deleted customer: %s is 502, and after that it is forgotten",
  async (what) => {
    const it = shopper();
    billing.stripe.webhooks.set({ drop: 1_000 });
    await it.open();
    const former = (await it.recorded())!;
    await billing.stripe.stripe.customers.del(former);
    expect(await refused(it[what]())).toBe(UNAVAILABLE);
    await eventually("it is forgotten", async () => (await it.recorded()) === undefined);
    billing.stripe.webhooks.set({ drop: 0 });
    await it.open();
    expect(await it.recorded()).not.toBe(former);
  },
);

test("a customer of another installation that shares the provider's account is passed over", async () => {
  const other = shopper();
  const stranger = "acc_00000000000000000000000000";
  const { stripe } = billing.stripe;
  const { id } = await stripe.customers.create({ metadata: { accountId: stranger } });
  await stripe.customers.update(id, { description: "of another installation" });
  await buy(billing, other.accountId);
  await eventually("it was read", async () => {
    const text =
      "select from stripe_events e where customer_id = $1 and not exists (select from due_customers d where d.customer_id = e.customer_id)";
    return ((await billing.pool.query(text, [id])).rowCount ?? 0) > 0;
  });
  const { rows } = await billing.pool.query("select from customers where customer_id = $1", [id]);
  expect(rows).toEqual([]);
});
