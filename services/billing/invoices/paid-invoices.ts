import type Stripe from "stripe";
import { kindOfProduct } from "../pricing/keys.ts";
import { ANNUAL_MONTHS } from "../pricing/plans.ts";
import { monthsAfter } from "../pricing/terms.ts";
import { type DisputeOutcome, outcomeOf, readDisputes } from "../stripe/disputes.ts";
import {
  computeItemsOf,
  exclusiveTax,
  isSubscribed,
  netCents,
  preTaxCents,
  priceOf,
  readLines,
} from "./subscribed-lines.ts";

// Times are whole seconds since 1970, amounts cents of a US dollar.

/**
 * What was paid for plan or members in a period, after discounts and what was given back before. A change of the number
 * of members has a second line, which takes the former number back: both are one.
 */
export type PaidLine = {
  start: number;
  end: number;
  paidCents: number;
  /** What it costs without discounts. */
  listCents: number;
  /** What a month of it costs with a monthly subscription, without discounts. */
  monthlyCents: number;
  /** The price of the provider. */
  price?: string | undefined;
  /** What it is for. */
  sold?: ReturnType<typeof kindOfProduct>;
  /** On an invoice with tax: what a credit note gives back of it. The amounts above are without tax. */
  creditable?: Creditable;
};

/** A line of an invoice: what it asks for before and after discounts, and what is left of it to credit, before them. */
type Creditable = { line: string; grossCents: number; netCents: number; leftCents: number };

/** A paid invoice of an annual subscription. */
export type PaidInvoice = {
  id: string;
  /** When it was made final. */
  finalizedAt: number;
  lines: PaidLine[];
  /** What of it was paid in cash, not from the customer's balance, and not refunded or taken back by a bank. */
  cashCents: number;
  /** Its payments that are disputed, and of which the bank has not decided. */
  disputedPayments: string[];
  /** The credit note by which the end of its subscription gave back a part of it: the amounts are those before. */
  refundNote?: string;
};

/** The most that the provider lists at a time, and the most that is read. */
const PAGE = 100;
const ALL = { limit: 10_000 };
/** How many invoices are read at once. */
const AT_ONCE = 10;

/** Marks what settles an invoice of a subscription that has ended: nothing of it is refunded. */
export const SETTLES = "settles";

/** What is known of a paid invoice: its lines, and what was given back of it. */
export type InvoiceRecord = {
  invoice: Pick<Stripe.Invoice, "id" | "amount_paid" | "status_transitions" | "automatic_tax">;
  lines: Stripe.InvoiceLineItem[];
  notes: Stripe.CreditNote[];
  /** All that was refunded of its payments, by credit notes or without. */
  refundedCents: number;
  /** What banks took back of its payments: disputes that were lost. */
  lostCents: number;
  disputedPayments: string[];
};

/** What the prices of a subscription's items, and of its former items, cost for a term, by id. */
export type UnitCents = ReadonlyMap<string, number>;

/** Names the subscription whose end a credit note follows from. */
export const FOLLOWS_END = "cancellation";

/**
 * Reads what was paid for plan and members by an annual subscription's invoices, in its current year. What its end gave
 * back of them counts as paid, so that what is to be given back in all is the same however much of it is.
 */
export async function readPaidInvoices(
  stripe: Stripe,
  { id, items }: Pick<Stripe.Subscription, "id" | "items">,
): Promise<PaidInvoice[]> {
  const data = await stripe.invoices
    .list({ subscription: id, status: "paid", limit: PAGE, expand: ["data.payments"] })
    .autoPagingToArray(ALL);
  const yearStart = Math.min(...items.data.filter(isPlan).map((item) => item.current_period_start));
  const ofYear = data.filter(
    ({ lines }) => lines.has_more || lines.data.some(({ period }) => period.end > yearStart),
  );
  const computeItems = computeItemsOf({ items });
  const records: InvoiceRecord[] = [];
  // A few at a time: the provider takes a hundred requests a second.
  for (let from = 0; from < ofYear.length; from += AT_ONCE)
    records.push(
      ...(await Promise.all(
        ofYear.slice(from, from + AT_ONCE).map((invoice) => readRecord(stripe, invoice)),
      )),
    );
  const unsettled = records.filter((record) => !isSettled(record, id));
  const unitCents = await readUnitCents(stripe, items.data, unsettled);
  return unsettled
    .map((record) => {
      const note = record.notes.find((one) => isOfEnd(one, id));
      const paid = toPaidInvoice(withoutNote(record, note), computeItems, unitCents);
      return { ...paid, ...(note && { refundNote: note.id }) };
    })
    .filter(({ lines }) => lines.length > 0);
}

/** Whether a credit note gives back what the end of a subscription left unused. */
export const isOfEnd = ({ metadata, status }: Stripe.CreditNote, subscription: string) =>
  metadata?.[FOLLOWS_END] === subscription && status !== "void";

/** Returns what is known of an invoice as it was before a credit note. */
function withoutNote(record: InvoiceRecord, note: Stripe.CreditNote | undefined): InvoiceRecord {
  if (!note) return record;
  const cash = sum(note.refunds.map(({ amount_refunded }) => amount_refunded));
  const notes = record.notes.filter((one) => one !== note);
  return { ...record, notes, refundedCents: record.refundedCents - cash };
}

const isPlan = ({ price }: Stripe.SubscriptionItem) => price.metadata.kind === "plan";

/** Whether an invoice was settled as the subscription ended: what was not used of it was not paid. */
function isSettled({ lines, notes }: InvoiceRecord, subscription: string): boolean {
  return [...lines, ...notes].some(({ metadata }) => metadata?.[SETTLES] === subscription);
}

async function readRecord(stripe: Stripe, invoice: Stripe.Invoice): Promise<InvoiceRecord> {
  const intents = (invoice.payments?.data ?? []).flatMap(
    ({ payment: { payment_intent: intent } }) => intent ?? [],
  );
  const payments = intents.map((intent) => (typeof intent === "string" ? intent : intent.id));
  const [lines, notes, refunds, disputes] = await Promise.all([
    readLines(stripe, invoice),
    stripe.creditNotes.list({ invoice: invoice.id, limit: PAGE }).autoPagingToArray(ALL),
    Promise.all(payments.map((payment) => readRefunded(stripe, payment))),
    Promise.all(payments.map((payment) => readDisputes(stripe, payment))),
  ]);
  const by = (outcome: DisputeOutcome) =>
    disputes.map((some) => (some ?? []).filter((dispute) => outcomeOf(dispute) === outcome));
  return {
    invoice,
    lines,
    notes,
    refundedCents: sum(refunds),
    lostCents: sum(by("lost").flatMap((some) => some.map(({ amount }) => amount))),
    disputedPayments: payments.filter((_, index) => by("open")[index]!.length > 0),
  };
}

async function readRefunded(stripe: Stripe, payment_intent: string): Promise<number> {
  const data = await stripe.refunds.list({ payment_intent, limit: PAGE }).autoPagingToArray(ALL);
  return sum(data.map(({ amount, status }) => (status === "failed" || status === "canceled" ? 0 : amount)));
}

/** Returns what the prices of lines cost for a term; one that the subscription has no longer is read. */
async function readUnitCents(
  stripe: Stripe,
  items: Stripe.SubscriptionItem[],
  records: InvoiceRecord[],
): Promise<UnitCents> {
  const known = new Map(items.map(({ price }) => [price.id, price.unit_amount ?? 0]));
  for (const id of new Set(records.flatMap(({ lines }) => lines.flatMap((line) => priceOf(line) ?? []))))
    if (!known.has(id)) known.set(id, (await stripe.prices.retrieve(id)).unit_amount ?? 0);
  return known;
}

/**
 * Returns what was paid for plan and members by an invoice, less what was given back: of a line by its credit notes, or of
 * the whole invoice, which all its lines share. Pure.
 */
export function toPaidInvoice(
  record: InvoiceRecord,
  computeItems: ReadonlySet<string>,
  unitCents: UnitCents,
): PaidInvoice {
  const { invoice, lines, refundedCents, lostCents, disputedPayments } = record;
  const notes = record.notes.filter(({ status }) => status !== "void");
  const ofLine = new Map<string, number>();
  const grossOfLine = new Map<string, number>();
  const add = (to: Map<string, number>, id: string, cents: number) => to.set(id, (to.get(id) ?? 0) + cents);
  for (const line of notes.flatMap((note) => note.lines.data))
    if (line.invoice_line_item) {
      add(ofLine, line.invoice_line_item, creditedCents(line));
      add(grossOfLine, line.invoice_line_item, line.amount);
    }
  const isTaxed = invoice.automatic_tax.enabled;
  const byNotes = sum(notes.map(({ total }) => total));
  const refundedByNotes = sum(
    notes.flatMap(({ refunds }) => refunds.map(({ amount_refunded }) => amount_refunded)),
  );
  const ofInvoice = byNotes - sum([...ofLine.values()]) + refundedCents - refundedByNotes + lostCents;
  const left = lines.map((line) => netCents(line) - (ofLine.get(line.id) ?? 0));
  const shares = share(Math.max(0, ofInvoice), left);
  const paid = lines.flatMap((line, index) =>
    isSubscribed(line, computeItems)
      ? { line, paidCents: withoutTax(line, left[index]! - shares[index]!, isTaxed) }
      : [],
  );
  const groups = Map.groupBy(paid, ({ line }) =>
    [priceOf(line), line.period.start, line.period.end].join(" "),
  );
  return {
    id: invoice.id,
    finalizedAt: invoice.status_transitions.finalized_at ?? 0,
    lines: [...groups.values()].map((group) => ({
      ...group[0]!.line.period,
      price: priceOf(group[0]!.line),
      sold: kindOfProduct(group[0]!.line.pricing?.price_details?.product ?? ""),
      paidCents: sum(group.map(({ paidCents }) => paidCents)),
      listCents: sum(group.map(({ line }) => line.amount)),
      monthlyCents: sum(group.map(({ line }) => monthlyCents(line, unitCents))),
      ...(isTaxed && { creditable: creditableOf(group, grossOfLine) }),
    })),
    // A payment that a bank took back, even a part of it, is not refunded: the rest goes to the customer's balance.
    cashCents: lostCents > 0 ? 0 : invoice.amount_paid - refundedCents,
    disputedPayments,
  };
}

/** Returns what was paid of a line without its tax, if its invoice has tax. */
function withoutTax(line: Stripe.InvoiceLineItem, cents: number, isTaxed: boolean): number {
  const net = netCents(line);
  return isTaxed && net !== 0 ? Math.round((cents * preTaxCents(line)) / net) : cents;
}

/** Returns the largest of lines: what another takes back is taken off it. */
function creditableOf(
  group: { line: Stripe.InvoiceLineItem }[],
  credited: ReadonlyMap<string, number>,
): Creditable {
  const { line } = group.reduce((largest, one) => (one.line.amount > largest.line.amount ? one : largest));
  const { id, amount } = line;
  const leftCents = amount - (credited.get(id) ?? 0);
  return { line: id, grossCents: amount, netCents: preTaxCents(line), leftCents };
}

/** Returns what a month of a line costs with a monthly subscription; less than 0 for one that takes something back. */
function monthlyCents(line: Stripe.InvoiceLineItem, unitCents: UnitCents): number {
  const { amount, quantity, period } = line;
  const unit = unitCents.get(priceOf(line) ?? "");
  if (unit !== undefined) return (Math.sign(amount) * unit * (quantity ?? 1)) / ANNUAL_MONTHS;
  // An amount without a price: what a whole year at its rate costs is known all the same.
  const year = monthsAfter(period.start, 12) - period.start;
  return (amount * year) / Math.max(1, period.end - period.start) / ANNUAL_MONTHS;
}

function creditedCents({ amount, discount_amount, taxes }: Stripe.CreditNoteLineItem): number {
  return amount - discount_amount + exclusiveTax(taxes);
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
