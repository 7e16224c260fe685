import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import { type Balance, chargeOf } from "../invoices/charge.ts";
import { readPaidInvoices } from "../invoices/paid-invoices.ts";
import {
  netCents as askedCents,
  computeItemsOf,
  isCompute,
  kindOfLines,
  partsOf,
  readLines,
  withAllLines,
} from "../invoices/subscribed-lines.ts";
import { readTaxRates, type TaxRates, taxOn } from "../invoices/taxes.ts";
import { currentPeriod, type DueCompute, dueCompute, type Metered } from "../metering/report-before-end.ts";
import { addTaxes } from "../refunds/add-taxes.ts";
import { annualRefunds, isInReview, type Refund } from "../refunds/refund.ts";
import { isStripeError, type Provider } from "../stripe/provider.ts";
import { type Asked, isAnnual } from "./asked.ts";
import { emptySettlement, type Settlement } from "./settlement.ts";
import { creditOf, kindOfRest, readUnused } from "./steps/settle-invoices.ts";

type Deps = { pool: Pool; provider: Provider };

/** What follows from a cancellation: what is charged and credited, and what is refunded, now or after a review. */
export type Forecast = Settlement & { refunds: Refund[]; underReview: boolean };

/** How long the provider leaves a draft open for the last usage. */
const DRAFT_SECONDS = 3_600;

/**
 * Returns what is charged if a subscription ends with its period: what is drafted already, and at the end members that
 * were added in the period, and compute. Throws 502 payment_provider_unavailable.
 */
export async function forecastAtPeriodEnd(deps: Deps, asked: Asked): Promise<Forecast> {
  const { subscription, metered } = asked;
  const settlement = emptySettlement();
  const computeItems = computeItemsOf(subscription);
  const balance = await readBalance(deps, metered);
  for (const draft of await listUnpaid(deps, subscription.id, "draft")) {
    const unfinished = await readUnfinished(deps, await readAllLines(deps, draft), asked);
    const cents = chargeOf(centsOf(unfinished, creditFor([unfinished])), balance);
    const due = draft.automatically_finalizes_at ?? draft.created + DRAFT_SECONDS;
    const kind = kindOfLines(unfinished.lines, computeItems);
    settlement.charges.push({ kind, cents, at: due, estimated: false });
  }
  const preview = await previewInvoice(deps, subscription.id, { cancel_at_period_end: true });
  const last = await readUnfinished(deps, preview?.lines.data ?? [], asked);
  settlement.charges.push({
    kind: kindOfLines(last.lines, computeItems),
    cents: chargeOf(centsOf(last, creditFor([last])), balance),
    at: endOf(subscription),
    estimated: last.compute.length > 0,
  });
  return { ...settlement, charges: nonZero(settlement.charges), refunds: [], underReview: false };
}

/**
 * Returns what follows if a subscription ends now: the same as `settleInvoices` and the refunds then do. Throws 502
 * payment_provider_unavailable.
 */
export async function forecastNow(deps: Deps, asked: Asked): Promise<Forecast> {
  const { subscription, metered, at } = asked;
  const settlement = emptySettlement();
  const computeItems = computeItemsOf(subscription);
  const balance = await readBalance(deps, metered);
  const open: Open[] = [];
  for (const invoice of await listUnpaid(deps, subscription.id, "open")) {
    const lines = await readAllLines(deps, invoice);
    const unusedCents = await deps.provider.ask((stripe) =>
      readUnused(stripe, invoice, lines, { computeItems, at }),
    );
    open.push({ ...invoice, taken: takenBy(invoice), lines, unusedCents: unusedCents.cents });
  }
  const drafts: Unfinished[] = [];
  for (const draft of await listUnpaid(deps, subscription.id, "draft"))
    drafts.push(await readUnfinished(deps, await readAllLines(deps, draft), asked));
  const preview = await previewInvoice(deps, subscription.id, { cancel_now: true });
  const final = preview && (await readUnfinished(deps, preview.lines.data, asked));
  const credit = creditFor(final ? [final, ...drafts] : drafts);
  if (final) open.push(toOpen(final, credit, { computeItems, at, balance }));
  for (const draft of drafts) {
    const { lines } = draft;
    const cents = centsOf(draft, credit);
    const hasCompute = draft.compute.some(({ dueCents }) => dueCents > 0);
    const { unusedCents, hasOthers } = partsOf(lines, computeItems, at);
    if (unusedCents > 0) settlement.credits.push({ kind: "renewal", cents: unusedCents });
    if (unusedCents > 0 && !hasOthers && !hasCompute) continue;
    const charged = chargeOf(cents - unusedCents, balance);
    settlement.charges.push({ kind: kindOfRest(lines, computeItems, at), cents: charged, estimated: false });
  }
  for (const invoice of open) settle(invoice, { computeItems, at, balance }, settlement);
  const paid = isAnnual(subscription)
    ? await deps.provider.ask((stripe) => readPaidInvoices(stripe, subscription))
    : [];
  const refunds = await addTaxes(deps.provider, annualRefunds(paid, at), paid);
  const isDisputed = paid.some(({ disputedPayments }) => disputedPayments.length > 0);
  const underReview = refunds.length > 0 && (isDisputed || isInReview(subscription.created, at));
  return { ...settlement, charges: nonZero(settlement.charges), refunds, underReview };
}

type Open = Pick<
  Stripe.Invoice,
  "total" | "amount_remaining" | "pre_payment_credit_notes_amount" | "post_payment_credit_notes_amount"
> & { lines: Stripe.InvoiceLineItem[]; taken: number; unusedCents: number };

type Settling = { computeItems: ReadonlySet<string>; at: number; balance: Balance };

/** Settles an open invoice as `settleInvoices` does. */
function settle(invoice: Open, { computeItems, at, balance }: Settling, settlement: Settlement): void {
  const { lines, amount_remaining: remaining, taken, unusedCents } = invoice;
  const { creditCents, owedCents } = creditOf(invoice, unusedCents);
  const isVoid = creditCents > 0 && owedCents <= 0;
  const toBalance = isVoid ? taken : Math.max(0, creditCents - remaining);
  balance.cents -= toBalance;
  const credited = isVoid ? remaining : Math.min(creditCents, remaining);
  settlement.credits.push({ kind: "open_invoice", cents: credited });
  if (!isVoid) settlement.credits.push({ kind: "balance", cents: toBalance });
  const kind = kindOfRest(lines, computeItems, at);
  settlement.charges.push({ kind, cents: remaining - credited, estimated: false });
}

/** Returns what an invoice took from the balance. */
function takenBy({ starting_balance, ending_balance }: Stripe.Invoice): number {
  return (ending_balance ?? starting_balance) - starting_balance;
}

/** Returns the invoice that the end makes, once it is open: compute until now, and what waits for the next invoice. */
function toOpen(final: Unfinished, credit: Credit, { computeItems, at, balance }: Settling): Open {
  const { lines } = final;
  const total = centsOf(final, credit);
  const before = balance.cents;
  const remaining = chargeOf(total, balance);
  const none = { pre_payment_credit_notes_amount: 0, post_payment_credit_notes_amount: 0 };
  const { unusedCents } = partsOf(lines, computeItems, at);
  return { ...none, total, lines, unusedCents, amount_remaining: remaining, taken: balance.cents - before };
}

/** What an invoice asks for that is not final, with compute as the ledger has it. */
type Unfinished = {
  lines: Stripe.InvoiceLineItem[];
  otherCents: number;
  compute: (DueCompute & { line: Stripe.InvoiceLineItem })[];
  rates: TaxRates;
};

async function readUnfinished(
  { pool, provider }: Deps,
  lines: Stripe.InvoiceLineItem[],
  { subscription, metered, at }: Asked,
): Promise<Unfinished> {
  const computeItems = computeItemsOf(subscription);
  const rates = await provider.ask((stripe) => readTaxRates(stripe, lines));
  const running = currentPeriod(subscription);
  const compute = [];
  for (const line of lines.filter((line) => isCompute(line, computeItems))) {
    // The line of an end now ends now.
    const period = line.period.start === running?.start ? running : line.period;
    compute.push({ line, ...(await dueCompute(pool, metered, period, at)) });
  }
  const others = lines.filter((line) => !isCompute(line, computeItems));
  return { lines, otherCents: sum(others.map(askedCents)), compute, rates };
}

/** What plans pay of compute: of invoices that are made final one after another, the first ones have it. */
type Credit = { cents: number };

function creditFor(invoices: Unfinished[]): Credit {
  const compute = invoices.flatMap((invoice) => invoice.compute);
  return { cents: sum(compute.map(({ dueCents, netCents }) => dueCents - netCents)) };
}

/** Returns what an invoice asks for, with tax, once the credit has paid what it can. */
function centsOf({ otherCents, compute, rates }: Unfinished, credit: Credit): number {
  const left = compute.map(({ line, dueCents }) => {
    const paid = Math.min(dueCents, credit.cents);
    credit.cents -= paid;
    return dueCents - paid + taxOn(dueCents - paid, line, rates);
  });
  return otherCents + sum(left);
}

function readAllLines({ provider }: Deps, invoice: Stripe.Invoice): Promise<Stripe.InvoiceLineItem[]> {
  return provider.ask((stripe) => readLines(stripe, invoice));
}

/** Returns a subscription's invoices with a status, the oldest first. */
async function listUnpaid({ provider }: Deps, subscription: string, status: "draft" | "open") {
  const { data } = await provider.ask((stripe) => stripe.invoices.list({ subscription, status, limit: 100 }));
  return data.toReversed();
}

/** Returns an invoice as the provider would make it; undefined when there is nothing to invoice. */
async function previewInvoice(
  { provider }: Deps,
  subscription: string,
  details: Stripe.InvoiceCreatePreviewParams.SubscriptionDetails,
): Promise<Stripe.Invoice | undefined> {
  const subscription_details = {
    ...details,
    ...(details.cancel_now && { proration_behavior: "none" as const }),
  };
  try {
    return await provider.ask(
      async (stripe) =>
        withAllLines(stripe, await stripe.invoices.createPreview({ subscription, subscription_details })),
      "invoice_upcoming_none",
    );
  } catch (error) {
    if (isStripeError(error, "invoice_upcoming_none")) return undefined;
    throw error;
  }
}

async function readBalance({ provider }: Deps, { customerId }: Metered): Promise<Balance> {
  const customer = await provider.ask((stripe) => stripe.customers.retrieve(customerId));
  return { cents: customer.deleted ? 0 : customer.balance };
}

function endOf({ items }: Stripe.Subscription): number {
  return Math.min(...items.data.map((item) => item.current_period_end));
}

const nonZero = <T extends { cents: number }>(all: T[]) => all.filter(({ cents }) => cents > 0);
const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0);
