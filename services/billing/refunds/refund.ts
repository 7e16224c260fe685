import type { PaidInvoice, PaidLine } from "../invoices/paid-invoices.ts";
import type { CreditLine } from "../invoices/taxes.ts";
import { monthsAfter } from "../pricing/terms.ts";

// Times are whole seconds since 1970, amounts cents of a US dollar.

/** A refund of a subscription that is younger waits for staff. */
const REVIEW_SECONDS = 14 * 86_400;

/** What is given back of an invoice: as cash, as far as it was paid in cash; the rest to the customer's balance. */
export type Refund = {
  invoiceId: string;
  amountCents: number;
  cashCents: number;
  /** The lines of the invoice that are given back, if it has tax: the provider adds the tax of each. */
  lines?: CreditLine[] | null;
  /** The tax in the amount. */
  taxCents?: number;
};

/**
 * Returns what an annual subscription that ends at `at` gives back (docs/billing.md#refunds): of each line what was paid,
 * less the regular monthly price for each month that has begun, with the discount that the line had. An invoice that was
 * made final after the end is given back whole. What was paid for a former plan was settled when the plan changed. Those of
 * which nothing is given back are left out.
 */
export function annualRefunds(invoices: PaidInvoice[], at: number): Refund[] {
  const takenBack = invoices.flatMap(({ lines }) => lines.filter(({ listCents }) => listCents < 0));
  return refundsOf(invoices, (line, { finalizedAt }) => {
    if (line.end <= at || takenBack.some((back) => line.start <= back.start && settles(back, line))) return 0;
    if (finalizedAt > at) return line.paidCents;
    const unused = line.paidCents - keptCents(line, at);
    // Less than 0 is what was taken back before.
    return line.paidCents > 0 ? Math.max(0, unused) : Math.min(0, unused);
  });
}

/**
 * Whether a line that takes back what is left of its price, as a change of the plan does, settles another one: of the
 * same price, or of the same plan, also for members who had left, whom nothing takes back.
 */
function settles(back: PaidLine, { price, sold }: PaidLine): boolean {
  if (back.price === undefined) return false;
  return back.price === price || (back.sold?.kind === "plan" && back.sold.tier === sold?.tier);
}

/** Returns what a monthly subscription would have cost for a line until `at`, with the discount that the line had. */
function keptCents({ start, paidCents, listCents, monthlyCents }: PaidLine, at: number): number {
  if (listCents === 0) return 0;
  return Math.round((startedMonths(start, at) * monthlyCents * paidCents) / listCents);
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

function refundsOf(
  invoices: PaidInvoice[],
  refundOf: (line: PaidLine, invoice: PaidInvoice) => number,
): Refund[] {
  const refunds = new Map<string, Refund>();
  let rest = 0;
  // An invoice gives back no more than it asked for: a larger plan was paid in part by what was left of the former one, and
  // so by the invoices before it.
  for (const invoice of invoices.toSorted((a, b) => b.finalizedAt - a.finalizedAt)) {
    const { id, lines, cashCents } = invoice;
    const amounts = lines.map((line) => refundOf(line, invoice));
    const wanted = rest + sum(amounts);
    const amountCents = Math.min(wanted, Math.max(0, sum(lines.map(({ paidCents }) => paidCents))));
    rest = Math.max(0, wanted - amountCents);
    if (amountCents <= 0) continue;
    const credited = creditLines(lines, amountCents === sum(amounts) ? amounts : spread(amountCents, lines));
    const refund = { invoiceId: id, amountCents, cashCents: Math.min(amountCents, Math.max(0, cashCents)) };
    refunds.set(id, { ...refund, ...(credited.length > 0 && { lines: credited }) });
  }
  return invoices.flatMap(({ id }) => refunds.get(id) ?? []);
}

/** Returns how much of an amount each line gives back, where it is not what each would have: as much as was paid, in turn. */
function spread(amountCents: number, lines: PaidLine[]): number[] {
  let left = amountCents;
  return lines.map(({ paidCents }) => {
    const amount = Math.max(0, Math.min(left, paidCents));
    left -= amount;
    return amount;
  });
}

/** Returns the lines of an invoice with tax that are given back, before discounts; of another none. */
function creditLines(lines: PaidLine[], amounts: number[]): CreditLine[] {
  return lines.flatMap(({ creditable }, index) => {
    const amount = amounts[index]!;
    if (!creditable || amount <= 0 || creditable.netCents <= 0) return [];
    const { line, grossCents, netCents, leftCents } = creditable;
    return { line, cents: Math.min(leftCents, Math.round((amount * grossCents) / netCents)) };
  });
}

const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0);

/** Whether the refund of a subscription from `created` that ended at `at` waits for staff. */
export function isInReview(created: number, at: number): boolean {
  return at - created < REVIEW_SECONDS;
}

/** Returns how much tax is in the cash of refunds. */
export function taxOf(refunds: Pick<Refund, "amountCents" | "cashCents" | "taxCents">[]): number {
  return refunds.reduce(
    (sum, { amountCents, cashCents, taxCents = 0 }) =>
      sum + (amountCents === 0 ? 0 : Math.round((taxCents * cashCents) / amountCents)),
    0,
  );
}

/** Returns how much of refunds is cash. */
export function cashOf(refunds: Pick<Refund, "cashCents">[]): number {
  return refunds.reduce((sum, { cashCents }) => sum + cashCents, 0);
}
