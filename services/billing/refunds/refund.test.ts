import fc from "fast-check";
import { expect, test } from "vitest";
import type { PaidInvoice, PaidLine } from "../invoices/paid-invoices.ts";
import { annualRefunds, cashOf, fullRefunds, startedMonths } from "./refund.ts";

const at = (iso: string) => Date.parse(iso.length > 10 ? iso : `${iso}T00:00:00Z`) / 1_000;
const YEAR = 365 * 86_400;

/** A line of a full year, at its list price unless told otherwise. */
function line(start: number, paidCents: number, listCents = paidCents): PaidLine {
  return { start, end: start + YEAR, paidCents, listCents, monthlyCents: listCents / 10 };
}

/** An invoice that was paid in cash, whole. */
function invoice(start: string, ...paid: number[]): PaidInvoice {
  const lines = paid.map((paidCents) => line(at(start), paidCents));
  return {
    id: "in_1",
    disputedPayments: [],
    finalizedAt: 0,
    lines,
    cashCents: paid.reduce((sum, cents) => sum + cents, 0),
  };
}

const cents = (invoices: PaidInvoice[], time: string) => cashOf(annualRefunds(invoices, at(time)));

test.each([
  ["2026-11-22", "2026-11-22", 1],
  ["2026-11-22", "2026-12-21T23:59:59Z", 1],
  ["2026-11-22", "2026-12-22", 2],
  ["2026-11-22T15:30:00Z", "2026-12-22T15:29:59Z", 1],
  ["2026-11-22T15:30:00Z", "2026-12-22T15:30:00Z", 2],
  ["2026-11-22", "2027-11-21", 12],
  ["2026-11-22", "2027-11-22", 13],
  ["2027-01-31T10:00:00Z", "2027-02-28T09:59:59Z", 1],
  ["2027-01-31T10:00:00Z", "2027-02-28T10:00:00Z", 2],
  ["2028-01-31", "2028-02-28", 1],
  ["2028-01-31", "2028-02-29", 2],
  ["2028-01-31", "2028-03-30", 2],
  ["2028-01-31", "2028-03-31", 3],
  ["2028-02-29", "2029-02-27", 12],
  ["2028-02-29", "2029-02-28", 13],
  ["2026-12-31", "2027-01-01", 1],
  ["2026-11-22", "2026-11-21", 1],
])("of months from %s, at %s so many have begun: %i", (start, time, months) => {
  expect(startedMonths(at(start), at(time))).toBe(months);
});

test.each([
  ["2026-11-22", "2026-11-22", 18_000],
  ["2026-11-22", "2026-12-21", 18_000],
  ["2026-11-22", "2026-12-22", 16_000],
  ["2026-11-22", "2027-04-22", 8_000],
  ["2026-11-22", "2027-08-21", 2_000],
  ["2026-11-22", "2027-08-22", 0],
  ["2026-11-22", "2027-11-21", 0],
  ["2027-01-31T10:00:00Z", "2027-02-28T10:00:00Z", 16_000],
])("of a plan of $200 from %s that ends at %s, so many cents are given back: %i", (start, time, refund) => {
  expect(cents([invoice(start, 20_000)], time)).toBe(refund);
});

test("a refund at full price is what was paid less the monthly price of the months that have begun", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 100, max: 1_000_000 }),
      fc.integer({ min: 0, max: 11 }),
      (monthly, months) => {
        const start = Date.UTC(2026, 0, 15) / 1_000;
        const time = Date.UTC(2026, months, 20) / 1_000;
        const paid = line(start, monthly * 10);
        const paidInvoice = {
          id: "in_1",
          disputedPayments: [],
          finalizedAt: 0,
          lines: [paid],
          cashCents: paid.paidCents,
        };
        const [refund] = annualRefunds([paidInvoice], time);
        expect(refund?.amountCents ?? 0).toBe(Math.max(0, paid.paidCents - (months + 1) * monthly));
      },
    ),
  );
});

test("a coupon's share stays with it: what is given back is of what was paid", () => {
  expect(cents([invoice("2026-11-22", 10_000)], "2026-12-01")).toBe(9_000);
  expect(cents([invoice("2026-11-22", 13_333)], "2026-12-01")).toBe(12_000);
  expect(annualRefunds([invoice("2026-11-22", 0)], at("2026-12-01"))).toEqual([]);
});

/** Members who were added to a year with so many days left, at $100 a year each. */
function added(members: number, daysLeft: number, discount = 1): PaidInvoice {
  const start = at("2026-07-10");
  const listCents = Math.round((members * 10_000 * daysLeft) / 365);
  const paidCents = Math.round(listCents * discount);
  const end = start + daysLeft * 86_400;
  const lines = [{ start, end, paidCents, listCents, monthlyCents: members * 1_000 }];
  return { id: "in_2", disputedPayments: [], finalizedAt: start, lines, cashCents: paidCents };
}

test.each([
  ["10 members for 3 days", added(10, 65), 3, 10_000],
  ["10 members for 3 days at half the price", added(10, 65, 0.5), 3, 5_000],
  ["one for 100 days", added(1, 265), 100, 4_000],
  ["one for 100 days of 110, who cost less than that", added(1, 110), 100, added(1, 110).cashCents],
])("%s keep the regular monthly price of the months that have begun", (_, paid, days, kept) => {
  const back = cashOf(annualRefunds([paid], at("2026-07-10") + days * 86_400));
  expect(paid.cashCents - back).toBe(kept);
});

test("what was made final after the end is given back whole", () => {
  const late = {
    ...invoice("2026-11-22", 20_000),
    disputedPayments: [],
    finalizedAt: at("2026-11-22T01:00:00Z"),
  };
  expect(cents([late], "2026-11-22T00:30:00Z")).toBe(20_000);
});

test("members that came later count from their own start", () => {
  const first = invoice("2026-01-10", 20_000, 10_000);
  const start = at("2026-07-10");
  const later = { start, end: at("2027-01-10"), paidCents: 5_000, listCents: 5_000, monthlyCents: 1_000 };
  const second = { id: "in_2", disputedPayments: [], finalizedAt: start, lines: [later], cashCents: 5_000 };
  expect(annualRefunds([first, second], at("2026-08-15"))).toEqual([
    // In the eighth month, and in the second.
    { invoiceId: "in_1", amountCents: 6_000, cashCents: 6_000 },
    { invoiceId: "in_2", amountCents: 3_000, cashCents: 3_000 },
  ]);
});

test("a period that is over gives nothing back, whenever it was paid", () => {
  const former = invoice("2025-11-22", 20_000);
  const renewed = { ...invoice("2026-11-22", 20_000), id: "in_2" };
  expect(annualRefunds([former, renewed], at("2026-11-25"))).toEqual([
    { invoiceId: "in_2", amountCents: 18_000, cashCents: 18_000 },
  ]);
});

test("what was paid from the balance goes back to the balance", () => {
  const paid = { ...invoice("2026-11-22", 20_000), cashCents: 5_000 };
  expect(annualRefunds([paid], at("2026-12-01"))).toEqual([
    { invoiceId: "in_1", amountCents: 18_000, cashCents: 5_000 },
  ]);
  expect(annualRefunds([{ ...paid, cashCents: -100 }], at("2026-12-01"))[0]?.cashCents).toBe(0);
});

test("a full refund is all that was paid", () => {
  expect(fullRefunds([invoice("2026-11-22", 20_000, 10_000)])).toEqual([
    { invoiceId: "in_1", amountCents: 30_000, cashCents: 30_000 },
  ]);
});

const start = fc.integer({ min: at("2024-01-01"), max: at("2032-12-31") });
const lines = fc.array(fc.integer({ min: 0, max: 5_000_000 }), { minLength: 1, maxLength: 6 });

test("never more is given back than was paid, never less than nothing, and never more later", () => {
  fc.assert(
    fc.property(
      start,
      lines,
      fc.integer({ min: 0, max: YEAR }),
      fc.integer({ min: 0, max: YEAR }),
      (from, paid, a, b) => {
        const paidLines = paid.map((paidCents) => line(from, paidCents));
        const total = paid.reduce((sum, each) => sum + each, 0);
        const invoices = [
          { id: "in_1", disputedPayments: [], finalizedAt: from, lines: paidLines, cashCents: total },
        ];
        const [sooner, later] = [a, b]
          .sort((x, y) => x - y)
          .map((wait) => cashOf(annualRefunds(invoices, from + wait)));
        expect(sooner).toBeLessThanOrEqual(total);
        expect(later).toBeGreaterThanOrEqual(0);
        expect(later).toBeLessThanOrEqual(sooner!);
        expect(cashOf(annualRefunds(invoices, from + YEAR))).toBe(0);
      },
    ),
  );
});

test("cash is never more than was paid in cash, whatever was given back before", () => {
  fc.assert(
    fc.property(start, lines, fc.integer({ min: -1_000, max: 5_000_000 }), (from, paid, cashCents) => {
      const paidLines = paid.map((paidCents) => line(from, paidCents));
      const paidInvoice = {
        id: "in_1",
        disputedPayments: [],
        finalizedAt: from,
        lines: paidLines,
        cashCents,
      };
      for (const refund of annualRefunds([paidInvoice], from)) {
        expect(refund.cashCents).toBeLessThanOrEqual(Math.max(0, cashCents));
        expect(refund.cashCents).toBeLessThanOrEqual(refund.amountCents);
      }
    }),
  );
});

test("the months that have begun grow by one at each anniversary, and at no other time", () => {
  fc.assert(
    fc.property(start, fc.integer({ min: 0, max: 400 }), (from, days) => {
      const today = startedMonths(from, from + days * 86_400);
      const tomorrow = startedMonths(from, from + (days + 1) * 86_400);
      expect(tomorrow - today).toBeGreaterThanOrEqual(0);
      expect(tomorrow - today).toBeLessThanOrEqual(1);
    }),
  );
});
