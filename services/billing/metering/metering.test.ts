import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { monthsAfter } from "../pricing/terms.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { webhookScene } from "../webhook/testing.ts";
import { dueCents, runFor } from "./testing.ts";

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;
/** What the plan pays of a period. */
const CREDIT_CENTS = 1_000;
const DAY_CENTS = dueCents(1);

let billing: TestBilling;
let scene: ReturnType<typeof webhookScene>;

async function startAnew(): Promise<void> {
  billing = await startBilling();
  scene = webhookScene(billing);
}
beforeAll(startAnew);
afterAll(() => billing?.stop());

const now = () => billing.stripe.clock.now();

type Row = {
  subscription_id: string;
  customer_id: string;
  start: number;
  end: number;
  reported_cents: number | null;
  due_cents: number | null;
  invoiced_cents: number | null;
  compared: boolean;
};

const NUMBERS = `subscription_id, customer_id, extract(epoch from started_at)::int as start,
  extract(epoch from ended_at)::int as end, reported_cents::int, due_cents::int, invoiced_cents::int, compared`;

async function periodsOf(accountId: string): Promise<Row[]> {
  const text = `select ${NUMBERS} from metered_periods where account_id = $1 order by started_at`;
  return (await billing.pool.query<Row>(text, [accountId])).rows;
}

/** Waits until the first period of an account is as said. */
const firstPeriod = (accountId: string, what: string, is: (row: Row) => boolean) =>
  eventually(what, async () => {
    const [row] = await periodsOf(accountId);
    return row && is(row) && row;
  });

/** Subscribes an account, and returns the period of its compute item. */
async function subscribe(cadence: "monthly" | "annual" = "monthly") {
  const accountId = await scene.paid(cadence);
  const period = await firstPeriod(accountId, "the period is recorded", () => true);
  return { accountId, ...period };
}

/** What the provider's meter says of a customer in a period, in units of a hundredth of a cent. */
async function metered(customer: string, { start, end }: { start: number; end: number }): Promise<number> {
  const { stripe } = billing.stripe;
  const [meter] = (await stripe.billing.meters.list({ status: "active" })).data;
  const { data } = await stripe.billing.meters.listEventSummaries(meter!.id, {
    customer,
    start_time: start,
    end_time: end,
  });
  return data[0]!.aggregated_value;
}

const grantsOf = async (customer: string) =>
  (await billing.stripe.stripe.billing.creditGrants.list({ customer })).data.map(
    ({ amount }) => amount.monetary?.value,
  );
/** Goes on to a time, with what falls due for the provider on the way. */
const goTo = (at: number) => billing.stripe.clock.advance(Math.max(0, at - now()));
/** What is tried again in a minute or an hour, which need not pass, is due now. */
const tryAgain = () =>
  billing.pool.query("update metered_periods set next_at = '-infinity' where due_cents is null");
const computeInvoice = async (accountId: string) => {
  const { invoices } = await billing.as(accountId).getSubscription({ accountId });
  return invoices.find(({ status, totalUsd }) => status === "paid" && totalUsd !== 20 && totalUsd !== 200);
};
const differences = () =>
  billing.logLines.filter((line) => line.includes("other compute than was used")).length;

/** Goes past the end of a period, until it is closed, and then until its invoice is final and compared. */
async function closeAndInvoice(accountId: string, end: number): Promise<Row> {
  goTo(end + 46 * MINUTE);
  await firstPeriod(accountId, "the period is closed", ({ due_cents }) => due_cents !== null);
  goTo(end + 61 * MINUTE);
  return firstPeriod(accountId, "the invoice is compared", ({ compared }) => compared);
}

test("a month of compute: reported every hour, closed with what the ledger froze, credited and invoiced to the cent", async () => {
  const { accountId, customer_id, start, end } = await subscribe();
  await runFor(billing, accountId, start, 5);
  goTo(now() + HOUR);
  const due = dueCents(5);
  await firstPeriod(accountId, "what ran is reported", (row) => row.reported_cents === due);
  expect(await metered(customer_id, { start, end })).toBe(due * 100);
  const row = await closeAndInvoice(accountId, end);
  expect(row).toMatchObject({ due_cents: due, invoiced_cents: due });
  expect(await metered(customer_id, { start, end })).toBe(due * 100);
  expect(await grantsOf(customer_id)).toEqual([CREDIT_CENTS]);
  const invoice = await eventually("the invoice is paid", () => computeInvoice(accountId));
  expect(invoice.totalUsd).toBeCloseTo(20 + (due - CREDIT_CENTS) / 100, 5);
  expect(differences()).toBe(0);
  expect(await billing.as(accountId).getComputeUsage({ accountId })).toMatchObject({ accruedUsd: 0 });
});

test("what a plan pays is granted as far as it is used, and nothing of it is left for the next month", async () => {
  const { accountId, customer_id, start, end } = await subscribe();
  await runFor(billing, accountId, start, 1);
  const row = await closeAndInvoice(accountId, end);
  expect(row).toMatchObject({ due_cents: DAY_CENTS, invoiced_cents: DAY_CENTS });
  expect(await grantsOf(customer_id)).toEqual([DAY_CENTS]);
  const next = (await periodsOf(accountId))[1]!;
  await runFor(billing, accountId, next.start, 5);
  goTo(next.end + 46 * MINUTE);
  await eventually("the next is closed", async () => (await periodsOf(accountId))[1]!.due_cents !== null);
  goTo(next.end + 61 * MINUTE);
  await eventually("the next is compared", async () => (await periodsOf(accountId))[1]!.compared);
  expect(await grantsOf(customer_id)).toEqual([CREDIT_CENTS, DAY_CENTS]);
  expect(differences()).toBe(0);
});

test("an invoice that asks for other compute is left as it is: the difference is corrected in the next month", async () => {
  const { accountId, customer_id, start, end } = await subscribe();
  await runFor(billing, accountId, start, 2);
  goTo(end + 46 * MINUTE);
  const { due_cents } = await firstPeriod(accountId, "it is closed", (row) => row.due_cents !== null);
  // Someone reports by hand.
  await billing.stripe.stripe.billing.meterEvents.create({
    event_name: "compute_usage",
    payload: { stripe_customer_id: customer_id, value: String((due_cents! + 300) * 100) },
    timestamp: end - 1,
  });
  goTo(end + 61 * MINUTE);
  await firstPeriod(accountId, "the invoice is compared", ({ compared }) => compared);
  const { rows } = await billing.pool.query(
    "select amount, reason, written_off from adjustments where account_id = $1 and reason = 'invoiced'",
    [accountId],
  );
  expect(rows).toEqual([{ amount: -300 * 1e7, reason: "invoiced", written_off: false }]);
  expect(differences()).toBe(1);
});

test("the provider is away when a period is closed, or its answers are lost: one grant, the same amount", async () => {
  const { accountId, customer_id, start, end } = await subscribe();
  await runFor(billing, accountId, start, 5);
  const { faults } = billing.stripe;
  // Two requests each: the SDK repeats one that fails.
  faults.add({ kind: "lose_answer", path: "/v1/billing/credit_grants", method: "POST", times: 2 });
  faults.add({ kind: "error", path: "/v1/billing/credit_grants", method: "GET", times: 2 });
  faults.add({ kind: "lose_answer", path: "/v1/billing/meter_events", times: 2 });
  goTo(end + 46 * MINUTE);
  await eventually("it is closed", async () => {
    const [{ due_cents } = { due_cents: null }] = await periodsOf(accountId);
    await tryAgain();
    return due_cents !== null;
  });
  expect(faults.pending()).toEqual([]);
  goTo(end + 61 * MINUTE);
  await firstPeriod(accountId, "the invoice is compared", ({ compared }) => compared);
  expect(await grantsOf(customer_id)).toEqual([CREDIT_CENTS]);
  const due = (await periodsOf(accountId))[0]!.due_cents!;
  expect(await metered(customer_id, { start, end })).toBe(due * 100);
});

test("an annual subscription that is canceled is billed what ran until then, with the plan's credit", async () => {
  const { accountId, customer_id, start } = await subscribe("annual");
  await runFor(billing, accountId, start, 5);
  goTo(now() + 15 * DAY);
  const { stripe, faults } = billing.stripe;
  // Credit that is granted before an end that fails is not granted again.
  faults.add({ kind: "error", method: "DELETE", path: "/v1/subscriptions/*", times: 1 });
  await expect(billing.as(accountId).cancelSubscription({ accountId })).rejects.toThrow("does not answer");
  await eventually("it is canceled", () =>
    billing
      .as(accountId)
      .cancelSubscription({ accountId })
      .then(
        () => true,
        (error) => !String(error).includes("does not answer"),
      ),
  );
  const { data } = await stripe.invoices.list({ customer: customer_id });
  const owed = data.filter(({ billing_reason }) => billing_reason !== "subscription_create");
  expect(owed.map(({ status, total }) => [status, total])).toEqual([["paid", dueCents(5) - CREDIT_CENTS]]);
  expect(await grantsOf(customer_id)).toEqual([CREDIT_CENTS]);
});

test("a month in which billing was away throughout is billed with the next, less what the plan pays of both", async () => {
  const { accountId, customer_id, end } = await subscribe();
  await billing.stopOwn();
  billing.deliverTo(undefined);
  await billing.pool.query("update reconciliations set next_at = 'infinity'");
  const away = { start: end, end: monthsAfter(end, 1) };
  goTo(away.end + 61 * MINUTE);
  const replica = await billing.startOne();
  await runFor(billing, accountId, away.start, 25);
  await billing.pool.query("update reconciliations set next_at = '-infinity'");
  const due = dueCents(25);
  await eventually("it is owed", async () => {
    await tryAgain();
    const { adjustmentUsd } = await billing.as(accountId, replica.port).getComputeUsage({ accountId });
    return adjustmentUsd === due / 100;
  });
  const present = (await periodsOf(accountId))[2]!;
  expect(present.start).toBe(away.end);
  goTo(present.end + 46 * MINUTE);
  await eventually(
    "the present one is closed",
    async () => (await periodsOf(accountId))[2]!.due_cents === due,
  );
  goTo(present.end + 61 * MINUTE);
  const { stripe } = billing.stripe;
  const invoices = await eventually("it is invoiced", async () => {
    const { data } = await stripe.invoices.list({ customer: customer_id });
    return data.every(({ status }) => status === "paid") && data;
  });
  expect(invoices.map(({ total }) => total)).toEqual([2_000 + due - 2 * CREDIT_CENTS, 2_000, 2_000, 2_000]);
  await replica.stop();
});

test("a period that is closed more than 35 days late is not reported, the log says so, and what was asked is credited", async () => {
  await billing.stop();
  await startAnew();
  const { accountId, customer_id, start, end } = await subscribe("annual");
  await runFor(billing, accountId, start, 1);
  goTo(now() + HOUR);
  await firstPeriod(accountId, "what ran is reported", (row) => row.reported_cents === DAY_CENTS);
  await billing.stopOwn();
  goTo(end + 36 * DAY);
  const replica = await billing.startOne();
  const row = await eventually("it is closed", async () => {
    goTo(now() + HOUR);
    const [first] = await periodsOf(accountId);
    return first?.due_cents !== null && first;
  });
  await replica.stop();
  expect(row).toMatchObject({ due_cents: DAY_CENTS, invoiced_cents: DAY_CENTS });
  expect(await grantsOf(customer_id)).toEqual([DAY_CENTS]);
  expect(billing.logLines.some((line) => line.includes("too old to be reported"))).toBe(true);
});
