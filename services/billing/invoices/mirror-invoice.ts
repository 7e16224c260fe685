import type Stripe from "stripe";
import { type InvoiceLine, invoiceLines } from "./invoice-lines.ts";
import { exclusiveTax, type InvoiceKind, isCompute } from "./subscribed-lines.ts";

const date = (seconds: number) => new Date(seconds * 1000);

/** An invoice of the payment provider as Berth records it. */
export type MirroredInvoice = {
  id: string;
  subscriptionId?: string;
  kind: InvoiceKind;
  /** Whether it asks for a plan: for a term, or for the rest of one when a larger plan begins. */
  paysPlan: boolean;
  status: string;
  periodStart: Date;
  periodEnd: Date;
  totalCents: number;
  /** The tax in it that is added to prices. */
  taxCents: number;
  /** What is charged of it, and for what: for events. */
  dueCents: number;
  lines: InvoiceLine[];
  pdfUrl?: string;
  hostedUrl?: string;
  /** The number on it. */
  number?: string;
  created: Date;
  /** When a failed payment is tried again. */
  nextAttempt?: Date;
  /** How often the provider tried to collect it. */
  attempts: number;
  /** Whether its payment waits until its payer confirms it. */
  actionRequired: boolean;
};

/**
 * Returns an invoice as Berth records it; undefined for a draft, which is not shown. `computeItems` are the ids of
 * compute items of the customer's subscriptions, `waiting` the invoices whose payer has to confirm. Pure.
 */
export function mirrorInvoice(
  invoice: Stripe.Invoice,
  computeItems: ReadonlySet<string>,
  waiting: ReadonlySet<string>,
): MirroredInvoice | undefined {
  const { id, status, lines, billing_reason: reason } = invoice;
  if (id === undefined || status === null || status === "draft") return undefined;
  const subscription = invoice.parent?.subscription_details?.subscription;
  const starts = lines.data.map(({ period }) => period.start);
  const ends = lines.data.map(({ period }) => period.end);
  const shown = invoiceLines(invoice);
  return {
    id,
    ...(subscription && {
      subscriptionId: typeof subscription === "string" ? subscription : subscription.id,
    }),
    kind: kindOf(reason, lines.data, computeItems),
    paysPlan: shown.some(({ kind, amountCents }) => kind === "plan" && amountCents! > 0n),
    status,
    // The period of the invoice itself is only the time in which its items were gathered.
    periodStart: date(starts.length > 0 ? Math.min(...starts) : invoice.period_start),
    periodEnd: date(ends.length > 0 ? Math.max(...ends) : invoice.period_end),
    totalCents: invoice.total,
    taxCents: exclusiveTax(invoice.total_taxes),
    dueCents: invoice.amount_due,
    lines: shown,
    ...(invoice.invoice_pdf && { pdfUrl: invoice.invoice_pdf }),
    ...(invoice.hosted_invoice_url && { hostedUrl: invoice.hosted_invoice_url }),
    ...(invoice.number && { number: invoice.number }),
    created: date(invoice.created),
    ...(invoice.next_payment_attempt !== null && { nextAttempt: date(invoice.next_payment_attempt) }),
    attempts: invoice.attempt_count,
    actionRequired: waiting.has(id),
  };
}

function kindOf(
  reason: Stripe.Invoice["billing_reason"],
  lines: Stripe.InvoiceLineItem[],
  computeItems: ReadonlySet<string>,
): InvoiceKind {
  if (lines.length > 0 && lines.every((line) => isCompute(line, computeItems))) return "compute";
  if (reason === "subscription_create" || reason === "subscription_cycle") return "subscription";
  return reason === "subscription_update" ? "proration" : "manual";
}
