import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import type Stripe from "stripe";
import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { dueCents, runFor } from "../metering/testing.ts";
import { subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { FREEZE_AFTER_SECONDS } from "../usage/closing/freeze.ts";
import { monthOf } from "../usage/periods.ts";

const DAY = 86_400;
const HOUR = 3_600;

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

const now = () => billing.stripe.clock.now();
const goTo = (at: number) => billing.stripe.clock.advance(Math.max(0, at - now()));
const secondsOf = (at: Timestamp | undefined) => timestampDate(at!).getTime() / 1_000;
const monthName = (at: number) => new Date(at * 1_000).toISOString().slice(0, 7);
const nano = (usd: number) => Math.round(usd * 1e9);

/** Closes the period that ends at a time, and waits until its invoice is final and compared. */
async function close(accountId: string, end: number): Promise<void> {
  goTo(end + FREEZE_AFTER_SECONDS + 60);
  const done = (column: string) =>
    eventually(`the period is ${column}`, async () => {
      const text = `select from metered_periods where account_id = $1 and ended_at = to_timestamp($2) and ${column}`;
      return (await billing.pool.query(text, [accountId, end])).rowCount === 1;
    });
  await done("due_cents is not null");
  goTo(end + HOUR + 60);
  await done("compared");
}

/** The line for compute of a customer's invoices, newest first, with the number of its invoice. */
async function computeLines(accountId: string) {
  const { rows } = await billing.pool.query("select customer_id from customers where account_id = $1", [
    accountId,
  ]);
  const { data } = await billing.stripe.stripe.invoices.list({ customer: rows[0].customer_id, limit: 100 });
  const isCompute = ({ description }: Stripe.InvoiceLineItem) => description === "Berth compute";
  return data.flatMap(({ number, lines }) => lines.data.filter(isCompute).map((line) => ({ number, line })));
}

test("a closed period is explained to the cent: as on its invoice, with a late correction in the next one", async () => {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  await subscribe(billing, accountId);
  const { periodStart, periodEnd } = await owner.getComputeUsage({ accountId });
  const [start, end] = [secondsOf(periodStart), secondsOf(periodEnd)];
  await runFor(billing, accountId, start, 4);
  expect(await refused(owner.getStatement({ accountId, month: monthName(start) }))).toBe("404 not_found");
  await close(accountId, end);
  const [invoiced] = await computeLines(accountId);
  const statement = await owner.getStatement({ accountId, month: monthName(start) });
  expect(statement.periods).toMatchObject([
    {
      tierId: "pro",
      billed: true,
      dueUsd: dueCents(4) / 100,
      invoicedUsd: invoiced!.line.amount / 100,
      creditUsd: 10,
      chargedUsd: (dueCents(4) - 1_000) / 100,
      invoiceNumber: invoiced!.number,
    },
  ]);
  expect(invoiced!.line.amount).toBe(dueCents(4));
  expect(statement.lines.map(({ kind }) => kind)).toEqual(["service", "rounding", "credit"]);
  const sum = statement.lines.reduce((total, { amountUsd }) => total + nano(amountUsd), 0);
  expect(sum).toBe(nano(statement.chargedUsd));

  await runFor(billing, accountId, start + 10 * DAY, 1);
  const { periodEnd: nextEnd } = await owner.getComputeUsage({ accountId });
  await close(accountId, secondsOf(nextEnd));
  const next = await owner.getStatement({ accountId, month: monthName(end) });
  expect(next.lines[0]).toMatchObject({
    kind: "adjustment",
    description: `Usage that was reported late or corrected, of the period from ${new Date(start * 1_000).toISOString().slice(0, 10)}`,
  });
  expect(next.periods[0]!.dueUsd).toBe((await computeLines(accountId))[0]!.line.amount / 100);
  expect(await owner.getStatement({ accountId, month: monthName(start) })).toEqual(statement);

  const { data, page } = await owner.listStatements({ accountId, limit: 1 });
  expect(data).toMatchObject([{ month: monthName(end), chargedUsd: next.chargedUsd }]);
  const older = await owner.listStatements({ accountId, limit: 1, cursor: page!.nextCursor });
  expect(older).toMatchObject({
    data: [{ month: monthName(start), chargedUsd: statement.chargedUsd }],
    page: { hasMore: false, nextCursor: "" },
  });
  expect(await refused(owner.listStatements({ accountId, cursor: "x" }))).toBe("400 malformed_request");
});

test("a month without a subscription is explained too: nothing was charged", async () => {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  const { end } = monthOf(now());
  goTo(end + 60);
  const month = monthOf(now());
  await runFor(billing, accountId, month.start, 2);
  goTo(month.end + FREEZE_AFTER_SECONDS + 60);
  const statement = await eventually("the month is closed", () =>
    owner.getStatement({ accountId, month: monthName(month.start) }).catch(() => undefined),
  );
  expect(statement).toMatchObject({
    chargedUsd: 0,
    periods: [{ tierId: "free", billed: false, chargedUsd: 0 }],
  });
  expect(statement.periods[0]!.dueUsd).toBe(dueCents(2) / 100);
  expect(statement.lines.at(-1)).toMatchObject({ kind: "not_charged", amountUsd: -dueCents(2) / 100 });
});

test("a part of a month that was closed before a subscription in it was known is not explained twice", async () => {
  const accountId = billing.account();
  const close = (from: string, to: string, billed: boolean, cents: number) =>
    billing.pool.query(
      `insert into period_statements (account_id, started_at, ended_at, tier, billed, inputs, accrued, allowance,
         adjustment, due_cents, lines, frozen_at)
       values ($1, $2, $3, 'pro', $4, '', $5, 0, 0, $6, $7, now())`,
      [
        ...[accountId, from, to, billed, cents * 1e7, cents],
        JSON.stringify([{ type: "web", serviceId: "svc_1", accrued: String(cents * 1e7), allowance: "0" }]),
      ],
    );
  await close("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", false, 3_000);
  await close("2026-01-01T00:00:00Z", "2026-01-10T00:00:00Z", false, 500);
  await close("2026-01-10T00:00:00Z", "2026-02-10T00:00:00Z", true, 2_500);
  const { periods, chargedUsd } = await billing.as(accountId).getStatement({ accountId, month: "2026-01" });
  expect(periods.map(({ dueUsd, chargedUsd }) => [dueUsd, chargedUsd])).toEqual([
    [5, 0],
    [25, 15],
  ]);
  expect(chargedUsd).toBe(15);
  const { data } = await billing.as(accountId).listStatements({ accountId });
  expect(data).toMatchObject([{ month: "2026-01", usageUsd: 30, chargedUsd: 15 }]);
});

test.each(["2026-13", "2026-1", "1999-01", "2026-11-01", "nothing", "%00", "9999-12", "2026-00"])(
  "there is no statement of %s",
  async (month) => {
    const accountId = billing.account();
    expect(await refused(billing.as(accountId).getStatement({ accountId, month }))).toBe("404 not_found");
  },
);

test("invoices are listed after the subscription has ended, page by page, each with its number", async () => {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  expect(await owner.listInvoices({ accountId })).toMatchObject({ data: [], page: { hasMore: false } });
  await subscribe(billing, accountId);
  const { currentPeriodEnd } = await owner.getSubscription({ accountId });
  goTo(secondsOf(currentPeriodEnd) + 2 * HOUR);
  await eventually(
    "the renewal is paid",
    async () => (await owner.listInvoices({ accountId })).data.length === 2,
  );
  await owner.cancelSubscription({ accountId });
  const renewed = await owner.getSubscription({ accountId });
  goTo(secondsOf(renewed.currentPeriodEnd) + 2 * HOUR);
  await eventually("it has ended", () =>
    refused(owner.getSubscription({ accountId })).catch(() => undefined),
  );
  const { data } = await eventually("the last invoice is known", async () => {
    const found = await owner.listInvoices({ accountId });
    return found.data.length === 3 && found;
  });
  const pages = [];
  for (let cursor: string | undefined; cursor !== ""; ) {
    const { data, page } = await owner.listInvoices({ accountId, limit: 1, ...(cursor && { cursor }) });
    pages.push(...data);
    cursor = page!.nextCursor;
  }
  expect(pages).toEqual(data);
  expect(new Set(data.map(({ number }) => number)).size).toBe(3);
  for (const { number, pdfUrl } of data) expect([typeof number, typeof pdfUrl]).toEqual(["string", "string"]);
});
