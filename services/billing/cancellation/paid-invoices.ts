import type Stripe from "stripe";
import type { PaidInvoice } from "./refund.ts";

/** The most that the provider lists at a time. */
const PAGE = 100;

/** What is known of a paid invoice: its lines, and what was given back of it. */
export type InvoiceRecord = {
  invoice: Pick<Stripe.Invoice, "id" | "amount_paid">;
  lines: Stripe.InvoiceLineItem[];
  notes: Stripe.CreditNote[];
  /** All that was refunded of its payments, by credit notes or without. */
  refundedCents: number;
};

/** Reads what was paid for plan and members by an annual subscription's invoices, in its current year. */
export async function readPaidInvoices(
  stripe: Stripe,
  { id, items }: Pick<Stripe.Subscription, "id" | "items">,
): Promise<PaidInvoice[]> {
  const { data } = await stripe.invoices.list({
    subscription: id,
    status: "paid",
    limit: PAGE,
    expand: ["data.payments"],
  });
  const yearStart = Math.min(...items.data.filter(isPlan).map((item) => item.current_period_start));
  const ofYear = data.filter(
    ({ lines }) => lines.has_more || lines.data.some(({ period }) => period.end > yearStart),
  );
  const computeItems = new Set(items.data.filter(isCompute).map((item) => item.id));
  const records = await Promise.all(ofYear.map((invoice) => readRecord(stripe, invoice)));
  return records.map((record) => toPaidInvoice(record, computeItems)).filter(({ lines }) => lines.length > 0);
}

const isPlan = ({ price }: Stripe.SubscriptionItem) => price.metadata.kind === "plan";
const isCompute = ({ price }: Stripe.SubscriptionItem) => price.metadata.kind === "compute";

async function readRecord(stripe: Stripe, invoice: Stripe.Invoice): Promise<InvoiceRecord> {
  const intents = (invoice.payments?.data ?? []).flatMap(
    ({ payment: { payment_intent: intent } }) => intent ?? [],
  );
  const [lines, notes, ...refunds] = await Promise.all([
    invoice.lines.has_more ? listAllLines(stripe, invoice.id) : invoice.lines.data,
    stripe.creditNotes.list({ invoice: invoice.id, limit: PAGE }).then(({ data }) => data),
    ...intents.map((intent) => readRefunded(stripe, typeof intent === "string" ? intent : intent.id)),
  ]);
  return { invoice, lines, notes, refundedCents: sum(refunds) };
}

function listAllLines(stripe: Stripe, invoice: string): Promise<Stripe.InvoiceLineItem[]> {
  return stripe.invoices.listLineItems(invoice, { limit: PAGE }).autoPagingToArray({ limit: 10 * PAGE });
}

async function readRefunded(stripe: Stripe, payment_intent: string): Promise<number> {
  const { data } = await stripe.refunds.list({ payment_intent, limit: PAGE });
  return sum(data.map(({ amount, status }) => (status === "failed" || status === "canceled" ? 0 : amount)));
}

/**
 * Returns what was paid for plan and members by an invoice, less what was given back: of a line by its credit notes, or of
 * the whole invoice, which all its lines share. Pure.
 */
export function toPaidInvoice(record: InvoiceRecord, computeItems: ReadonlySet<string>): PaidInvoice {
  const { invoice, lines, refundedCents } = record;
  const notes = record.notes.filter(({ status }) => status !== "void");
  const ofLine = new Map<string, number>();
  for (const line of notes.flatMap((note) => note.lines.data))
    if (line.invoice_line_item)
      ofLine.set(line.invoice_line_item, (ofLine.get(line.invoice_line_item) ?? 0) + creditedCents(line));
  const byNotes = sum(notes.map(({ total }) => total));
  const refundedByNotes = sum(
    notes.flatMap(({ refunds }) => refunds.map(({ amount_refunded }) => amount_refunded)),
  );
  const ofInvoice = byNotes - sum([...ofLine.values()]) + refundedCents - refundedByNotes;
  const left = lines.map((line) => paidCents(line) - (ofLine.get(line.id) ?? 0));
  const shares = share(Math.max(0, ofInvoice), left);
  return {
    id: invoice.id,
    lines: lines.flatMap((line, index) =>
      isSubscribed(line, computeItems) ? { ...line.period, paidCents: left[index]! - shares[index]! } : [],
    ),
    cashCents: invoice.amount_paid - refundedCents,
  };
}

/** Whether a line is for plan or members, not for compute or something that staff charged. */
function isSubscribed({ parent }: Stripe.InvoiceLineItem, computeItems: ReadonlySet<string>): boolean {
  const item = parent?.subscription_item_details?.subscription_item;
  return item ? !computeItems.has(item) : (parent?.invoice_item_details?.proration ?? false);
}

function paidCents({ amount, discount_amounts, taxes }: Stripe.InvoiceLineItem): number {
  return amount - sum((discount_amounts ?? []).map((discount) => discount.amount)) + exclusiveTax(taxes);
}

function creditedCents({ amount, discount_amount, taxes }: Stripe.CreditNoteLineItem): number {
  return amount - discount_amount + exclusiveTax(taxes);
}

function exclusiveTax(taxes: { amount: number; tax_behavior: string }[] | null): number {
  return sum((taxes ?? []).map(({ amount, tax_behavior }) => (tax_behavior === "exclusive" ? amount : 0)));
}

/** Returns the shares of an amount in parts, in proportion to those above 0; whole, and no more than the parts are. */
function share(amount: number, parts: number[]): number[] {
  const total = sum(parts.map((part) => Math.max(0, part)));
  let [rest, restOfParts] = [Math.min(amount, total), total];
  return parts.map((part) => {
    if (part <= 0) return 0;
    const mine = Math.round((rest * part) / restOfParts);
    rest -= mine;
    restOfParts -= part;
    return mine;
  });
}

const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0);
