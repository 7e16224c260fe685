import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { reportMember, setMembers } from "./testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

/** An account on pro, which includes three members, with so many of them. */
async function team(members: number, cadence: "monthly" | "annual" = "monthly") {
  const accountId = billing.account(members);
  const { id } = await subscribe(billing, accountId, { cadence });
  return teamOf(accountId, id);
}

function teamOf(accountId: string, id: string) {
  const { stripe, clock } = billing.stripe;
  const invoices = async () => (await stripe.invoices.list({ subscription: id, limit: 100 })).data;
  const seats = async () => {
    const { items } = await stripe.subscriptions.retrieve(id);
    return items.data.find(({ price }) => price.metadata.kind === "seat")?.quantity ?? 0;
  };
  return {
    accountId,
    id,
    seats,
    /** What the invoices say, in cents, oldest first; those without compute of an annual subscription are of 0. */
    totals: async () => (await invoices()).flatMap(({ total }) => total || []).reverse(),
    /** Sets how many members there are, and reports it as identity does. */
    become: (members: number) => setMembers(billing, accountId, members),
    settled: () =>
      eventually("the seats are looked at", async () => {
        const { rows } = await billing.pool.query("select 1 from seat_checks where account_id = $1", [
          accountId,
        ]);
        return rows.length === 0;
      }),
    billed: (count: number) => eventually(`${count} seats are billed`, async () => (await seats()) === count),
    /** Goes to the end of the period, when the next invoice is paid. */
    async renew() {
      const { items } = await stripe.subscriptions.retrieve(id);
      clock.advance(items.data[0]!.current_period_end - clock.now() + 7_200);
    },
    /** Goes to the middle of the period. */
    async half() {
      const { items } = await stripe.subscriptions.retrieve(id);
      const { current_period_start: start, current_period_end: end } = items.data[0]!;
      clock.advance(Math.round((start + end) / 2) - clock.now());
    },
  };
}

test("members who are added cost the rest of the month, with the next invoice", async () => {
  const { become, billed, half, renew, totals, accountId } = await team(3);
  await half();
  await become(5);
  await billed(2);
  expect(await totals()).toEqual([2_000]);
  await eventually("the subscription shows it", async () => {
    const { items } = await billing.as(accountId).getSubscription({ accountId });
    return items.some(({ kind, quantity }) => kind === "seat" && quantity === 2);
  });
  await renew();
  expect(await totals()).toEqual([2_000, 2_000 + 2_000 + 1_000]);
});

test("members who are added to an annual subscription are charged at once for the rest of the year", async () => {
  const { become, billed, half, totals } = await team(4, "annual");
  await half();
  await become(5);
  await billed(2);
  const [first, second] = await totals();
  expect(first).toBe(20_000 + 10_000);
  expect(second).toBeGreaterThan(4_900);
  expect(second).toBeLessThan(5_100);
});

test("who is removed is not billed from the next renewal on; nothing is given back, and the seat can be taken again", async () => {
  const { become, billed, half, renew, totals, accountId } = await team(5);
  await half();
  await become(3);
  await billed(0);
  await eventually("no seat is shown", async () => {
    const { items } = await billing.as(accountId).getSubscription({ accountId });
    return items.every(({ kind }) => kind !== "seat");
  });
  await become(4);
  await billed(1);
  await become(3);
  await billed(0);
  await renew();
  expect(await totals()).toEqual([4_000, 2_000]);
  await become(4);
  await billed(1);
  await renew();
  expect((await totals()).at(-1)).toBeGreaterThan(3_900);
});

test("who joins between the checkout and its payment is billed too", async () => {
  const accountId = billing.account(3);
  const owner = billing.as(accountId);
  const { checkoutUrl } = await owner.createSubscription({ accountId, tierId: "pro" });
  const { members } = billing.neighbours.accounts.get(accountId)!;
  members.push({ ...members[0]!, userId: newId("usr"), role: "reader" });
  await billing.pay(checkoutUrl);
  const { id } = await eventually("it is recorded", async () =>
    owner.getSubscription({ accountId }).catch(() => undefined),
  );
  const { settled, seats } = teamOf(accountId, id);
  const seat = await eventually("the seat is shown", async () => {
    const { items } = await owner.getSubscription({ accountId });
    return items.find(({ kind }) => kind === "seat");
  });
  await settled();
  expect(seat.quantity).toBe(1);
  expect(await seats()).toBe(1);
});

test("a member who is added costs what the price list said at which the subscription was bought", async () => {
  const { stripe } = billing.stripe;
  const priceOf = (kind: string, unit_amount: number) =>
    stripe.prices.create({
      product: `berth_${kind}_pro`,
      currency: "usd",
      unit_amount,
      recurring: { interval: "month" },
      lookup_key: `${kind}_pro_monthly_2025-01`,
      metadata: { kind, tierId: "pro", priceVersion: "2025-01" },
    });
  const [plan] = [await priceOf("plan", 1_500), await priceOf("seat", 700)];
  const { become, billed, accountId, id } = await team(3);
  const [item] = (await stripe.subscriptions.retrieve(id)).items.data;
  await stripe.subscriptionItems.update(item!.id, { price: plan.id, proration_behavior: "none" });
  await become(4);
  await billed(1);
  const seat = await eventually("the seat is shown", async () => {
    const { items } = await billing.as(accountId).getSubscription({ accountId });
    return items.find(({ kind }) => kind === "seat");
  });
  expect(seat).toMatchObject({ quantity: 1, unitPriceUsd: 7 });
});

test("members of an account without a subscription, and one within what is included, change nothing", async () => {
  const { become, settled, seats, totals } = await team(1);
  await become(3);
  await settled();
  expect([await seats(), await totals()]).toEqual([0, [2_000]]);
  await reportMember(billing, billing.account(9), true);
  expect(await billing.deadLetters()).toBe(0);
});

test("while identity or the provider is away, the change waits, and is made once", async () => {
  const { id, become, billed, half, renew, totals, seats, settled } = await team(3);
  const customer = (await billing.stripe.stripe.subscriptions.retrieve(id)).customer as string;
  await half();
  billing.stripe.faults.add({
    kind: "lose_answer",
    method: "POST",
    path: "/v1/subscription_items*",
    times: 2,
  });
  billing.neighbours.proxy.shut();
  await become(4);
  await eventually("it waits", async () => billing.logLines.some((line) => line.includes(customer)));
  expect(await seats()).toBe(0);
  await billing.neighbours.proxy.open();
  await billed(1);
  await settled();
  await renew();
  expect((await totals()).at(-1)).toBe(2_000 + 1_000 + 500);
});

test("several replicas, of which one is killed again and again, charge each member once", async () => {
  const { become, billed, half, renew, totals, settled } = await team(3);
  await half();
  const other = await billing.process();
  for (let members = 4; members <= 7; members++) {
    await become(members);
    await other.end("SIGKILL");
    // What it had taken is anybody's when its lease is over.
    await billing.pool.query("update due_customers set next_at = now(), leased_until = null");
    await other.run();
  }
  await billed(4);
  await settled();
  await renew();
  expect((await totals()).at(-1)).toBe(2_000 + 4_000 + 2_000);
});
