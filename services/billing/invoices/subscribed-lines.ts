import type Stripe from "stripe";

// Times are whole seconds since 1970, amounts cents of a US dollar.

type Line = Stripe.InvoiceLineItem;

/** Returns the ids of a subscription's items for compute. */
export function computeItemsOf({ items }: Pick<Stripe.Subscription, "items">): Set<string> {
  return new Set(items.data.filter(({ price }) => price.metadata.kind === "compute").map(({ id }) => id));
}

/** Whether a line is for compute. */
export function isCompute({ parent }: Line, computeItems: ReadonlySet<string>): boolean {
  return computeItems.has(parent?.subscription_item_details?.subscription_item ?? "");
}

/** Whether a line is for plan or members, not for compute or something that staff charged. */
export function isSubscribed({ parent }: Line, computeItems: ReadonlySet<string>): boolean {
  const item = parent?.subscription_item_details?.subscription_item;
  return item ? !computeItems.has(item) : (parent?.invoice_item_details?.proration ?? false);
}

/** Returns the id of a line's price; undefined of an amount without one. */
export function priceOf({ pricing }: Line): string | undefined {
  const price = pricing?.price_details?.price;
  return typeof price === "object" ? price.id : price;
}

/** Returns what a line asks for, after discounts and with tax. What credit grants pay of it is not taken off. */
export function netCents(line: Line): number {
  return preTaxCents(line) + exclusiveTax(line.taxes);
}

/** Returns what a line asks for, after discounts and without the tax that is added. */
export function preTaxCents({ amount, discount_amounts }: Line): number {
  return amount - sum((discount_amounts ?? []).map((discount) => discount.amount));
}

export function exclusiveTax(taxes: { amount: number; tax_behavior: string }[] | null): number {
  return sum((taxes ?? []).map(({ amount, tax_behavior }) => (tax_behavior === "exclusive" ? amount : 0)));
}

/** Whether a line is for plan or members for a period that is not over at a time. */
export function isUnused(line: Line, computeItems: ReadonlySet<string>, at: number): boolean {
  return isSubscribed(line, computeItems) && line.period.end > at;
}

/** What the lines of an invoice are for, after discounts. */
export type Parts = {
  /** Plan and members for a period that is not over. */
  unusedCents: number;
  /** Whether anything else but compute is asked for. */
  hasOthers: boolean;
};

/** Returns what an invoice of a subscription that ends at a time is for. Pure. */
export function partsOf(lines: Line[], computeItems: ReadonlySet<string>, at: number): Parts {
  const unused = lines.filter((line) => isUnused(line, computeItems, at));
  const isOther = (line: Line) =>
    !unused.includes(line) && !isCompute(line, computeItems) && netCents(line) !== 0;
  return { unusedCents: sum(unused.map(netCents)), hasOthers: lines.some(isOther) };
}

/** What an invoice is for, as the API shows it. */
export type InvoiceKind = "subscription" | "compute" | "proration" | "manual";

/** Returns what most of an invoice's lines are for: a term of the plan, only compute, members of a running term, or else. */
export function kindOfLines(lines: Line[], computeItems: ReadonlySet<string>): InvoiceKind {
  if (lines.length > 0 && lines.every((line) => isCompute(line, computeItems))) return "compute";
  const subscribed = lines.filter((line) => isSubscribed(line, computeItems));
  if (subscribed.length === 0) return "manual";
  return subscribed.every(isProration) ? "proration" : "subscription";
}

function isProration({ parent }: Line): boolean {
  return (parent?.subscription_item_details ?? parent?.invoice_item_details)?.proration ?? false;
}

/** Returns all lines of an invoice: one that has many shows only the first. */
export async function readLines(stripe: Stripe, { id, lines }: Stripe.Invoice): Promise<Line[]> {
  if (!lines.has_more) return lines.data;
  return stripe.invoices.listLineItems(id, { limit: 100 }).autoPagingToArray({ limit: 1_000 });
}

/** Completes the lines of an invoice, or of a preview of one, and returns it. */
export async function withAllLines<T extends Stripe.Invoice>(stripe: Stripe, invoice: T): Promise<T> {
  invoice.lines.data = await readLines(stripe, invoice);
  invoice.lines.has_more = false;
  return invoice;
}

const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0);
