import { ANNUAL_MONTHS } from "../catalog/plans.ts";
import { monthsAfter } from "../usage/periods.ts";

// Times are whole seconds since 1970, amounts cents of a US dollar.

/** What was paid for plan or members in a period, after discounts and what was given back before. */
export type PaidLine = { start: number; end: number; paidCents: number };

/** A paid invoice of an annual subscription. */
export type PaidInvoice = {
  id: string;
  lines: PaidLine[];
  /** What of it was paid in cash, not from the customer's balance, and not refunded. */
  cashCents: number;
};

/** What is given back of an invoice: as cash, as far as it was paid in cash; the rest to the customer's balance. */
export type Refund = { invoiceId: string; amountCents: number; cashCents: number };

/**
 * Returns what an annual subscription that ends at `at` gives back (docs/billing.md#refunds): a tenth of what was paid for
 * each month that a monthly subscription would have paid for. Invoices of which nothing is given back are left out.
 */
export function annualRefunds(invoices: PaidInvoice[], at: number): Refund[] {
  return refundsOf(invoices, ({ start, end, paidCents }) => {
    if (end <= at) return 0;
    const unused = Math.max(0, ANNUAL_MONTHS - startedMonths(start, at));
    return Math.round((paidCents * unused) / ANNUAL_MONTHS);
  });
}

/** Returns all that was paid, as refunds. */
export function fullRefunds(invoices: PaidInvoice[]): Refund[] {
  return refundsOf(invoices, ({ paidCents }) => paidCents);
}

/** Returns how many months from a start have begun: at least 1. A day that a month does not have is its last one (UTC). */
export function startedMonths(start: number, at: number): number {
  const [from, to] = [new Date(start * 1_000), new Date(at * 1_000)];
  const apart = (to.getUTCFullYear() - from.getUTCFullYear()) * 12 + to.getUTCMonth() - from.getUTCMonth();
  const passed = monthsAfter(start, apart) <= at ? apart : apart - 1;
  return Math.max(0, passed) + 1;
}

function refundsOf(invoices: PaidInvoice[], refundOf: (line: PaidLine) => number): Refund[] {
  return invoices.flatMap(({ id, lines, cashCents }) => {
    // A change of the number of members has a line that takes the former number back.
    const amountCents = lines.reduce((sum, line) => sum + refundOf(line), 0);
    if (amountCents <= 0) return [];
    return { invoiceId: id, amountCents, cashCents: Math.min(amountCents, Math.max(0, cashCents)) };
  });
}

/** Returns how much of refunds is cash. */
export function cashOf(refunds: Pick<Refund, "cashCents">[]): number {
  return refunds.reduce((sum, { cashCents }) => sum + cashCents, 0);
}
