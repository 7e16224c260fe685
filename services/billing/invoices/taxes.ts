import type Stripe from "stripe";
import { isRefused } from "../stripe/provider.ts";
import { preTaxCents } from "./subscribed-lines.ts";

// Amounts are cents of a US dollar. Taxes are those that are added to prices.

type Line = Pick<Stripe.InvoiceLineItem, "taxes">;

/** What tax rates are, in percent, by id. */
export type TaxRates = ReadonlyMap<string, number>;

const exclusive = ({ taxes }: Line) =>
  (taxes ?? []).filter(({ tax_behavior }) => tax_behavior === "exclusive");

/** Reads the rates of the taxes of lines. */
export async function readTaxRates(stripe: Stripe, lines: Line[]): Promise<TaxRates> {
  const ids = lines.flatMap(exclusive).flatMap(({ tax_rate_details: details }) => details?.tax_rate ?? []);
  const rates = new Map<string, number>();
  for (const id of new Set(ids)) {
    const { effective_percentage: effective, percentage } = await stripe.taxRates.retrieve(id);
    rates.set(id, effective ?? percentage);
  }
  return rates;
}

/** Returns the tax of an amount before tax that a line comes to, at the rates of the line. Pure. */
export function taxOn(cents: number, line: Line | undefined, rates: TaxRates): number {
  if (!line) return 0;
  return exclusive(line)
    .map(({ tax_rate_details: details }) => rates.get(details?.tax_rate ?? "") ?? 0)
    .reduce((sum, percent) => sum + Math.sign(cents) * Math.round((Math.abs(cents) * percent) / 100), 0);
}

/** A line of a credit note: which line of the invoice, and how much of it before discounts and tax. */
export type CreditLine = { line: string; cents: number };

/**
 * Returns the lines of a credit note that gives lines back whole: an invoice with tax is credited by its lines, so that
 * the provider returns the tax. What a line takes back is taken off the largest. Pure.
 */
export function toCreditLines(lines: Stripe.InvoiceLineItem[]): CreditLine[] {
  const [largest, ...others] = lines
    .filter((line) => preTaxCents(line) > 0)
    .toSorted((a, b) => b.amount - a.amount);
  if (!largest) return [];
  const back = lines.filter((line) => preTaxCents(line) < 0).reduce((sum, { amount }) => sum + amount, 0);
  return [
    { line: largest.id, cents: largest.amount + back },
    ...others.map(({ id, amount }) => ({ line: id, cents: amount })),
  ].filter(({ cents }) => cents > 0);
}

/** Returns the lines of a credit note as the provider takes them. */
export function toNoteLines(lines: CreditLine[]): Stripe.CreditNoteCreateParams.Line[] {
  return lines.map(({ line, cents }) => ({
    type: "invoice_line_item" as const,
    invoice_line_item: line,
    amount: cents,
  }));
}

/** By how many cents the tax of some lines may be more than that of an invoice on which others take something back. */
const ROUNDING_CENTS = 3;

/** What a credit note gives back, with tax, the tax of it, and its lines. */
type Credit = { cents: number; taxCents: number; lines: CreditLine[] };

/**
 * Returns what a credit note would give back of an invoice. The provider rounds the tax of each line, and refuses to give
 * back more than the invoice asked for: then some cents less are.
 */
export async function readCredit(stripe: Stripe, invoice: string, asked: CreditLine[]): Promise<Credit> {
  for (let less = 0; ; less++) {
    const lines = lessCents(asked, less);
    if (lines.length === 0) return { cents: 0, taxCents: 0, lines };
    try {
      const note = await stripe.creditNotes.preview({ invoice, lines: toNoteLines(lines) });
      const taxCents = (note.total_taxes ?? []).reduce((sum, { amount }) => sum + amount, 0);
      return { cents: note.total, taxCents, lines };
    } catch (error) {
      if (less === ROUNDING_CENTS || !isRefused(error)) throw error;
    }
  }
}

function lessCents([first, ...others]: CreditLine[], less: number): CreditLine[] {
  if (!first) return [];
  return [{ ...first, cents: first.cents - less }, ...others].filter(({ cents }) => cents > 0);
}
