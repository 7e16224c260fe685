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
} from "../invoices/subscribed-lines.ts";
import { readTaxRates, taxOn } from "../invoices/taxes.ts";
import { currentPeriod, dueCompute, type Metered } from "../metering/report-before-end.ts";
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
export async function forecastAtPeriodEnd(
  deps: Deps,
  { subscription, metered, at }: Asked,
): Promise<Forecast> {
  const settlement = emptySettlement();
  const computeItems = computeItemsOf(subscription);
  const balance = await readBalance(deps, metered);
  for (const draft of await listUnpaid(deps, subscription.id, "draft")) {
    const { lines, cents } = await readDraft(deps, { draft, metered, computeItems, at });
    const due = draft.automatically_finalizes_at ?? draft.created + DRAFT_SECONDS;
    const kind = kindOfLines(lines, computeItems);
    settlement.charges.push({ kind, cents: chargeOf(cents, balance), at: due, estimated: false });
  }
  const last = await previewInvoice(deps, subscription.id, { cancel_at_period_end: true });
  const lines = last?.lines.data ?? [];
  const others = lines.filter((line) => !isCompute(line, computeItems));
  const compute = currentPeriod(subscription);
  const { netCents } = compute ? await dueCompute(deps.pool, metered, compute, at) : { netCents: 0 };
  const rates = await deps.provider.ask((stripe) => readTaxRates(stripe, lines));
  const ran =
    netCents +
    taxOn(
      netCents,
      lines.find((line) => isCompute(line, computeItems)),
      rates,
    );
  settlement.charges.push({
    kind: others.length === 0 ? "compute" : kindOfLines(others, computeItems),
    cents: chargeOf(sum(others.map(askedCents)) + ran, balance),
    at: endOf(subscription),
    estimated: compute !== undefined,
  });
  return { ...settlement, charges: nonZero(settlement.charges), refunds: [], underReview: false };
}

/**
 * Returns what follows if a subscription ends now: the same as `settleInvoices` and the refunds then do. Throws 502
 * payment_provider_unavailable.
 */
export async function forecastNow(deps: Deps, { subscription, metered, at }: Asked): Promise<Forecast> {
  const settlement = emptySettlement();
  const computeItems = computeItemsOf(subscription);
  const balance = await readBalance(deps, metered);
  const open: Open[] = [];
  for (const invoice of await listUnpaid(deps, subscription.id, "open")) {
    const lines = await deps.provider.ask((stripe) => readLines(stripe, invoice));
    const unusedCents = await deps.provider.ask((stripe) =>
      readUnused(stripe, invoice, lines, { computeItems, at }),
    );
    open.push({ ...invoice, taken: takenBy(invoice), lines, unusedCents: unusedCents.cents });
  }
  const final = await readFinal(deps, { subscription, metered, at }, balance);
  if (final) open.push(final);
  for (const draft of await listUnpaid(deps, subscription.id, "draft")) {
    const { lines, cents, hasCompute } = await readDraft(deps, { draft, metered, computeItems, at });
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

/** Returns the invoice that the end makes: compute until now, and what waits for the next invoice. */
async function readFinal(
  deps: Deps,
  { subscription, metered, at }: Asked,
  balance: Balance,
): Promise<Open | undefined> {
  const invoice = await previewInvoice(deps, subscription.id, { cancel_now: true });
  if (!invoice) return undefined;
  const computeItems = computeItemsOf(subscription);
  const lines = invoice.lines.data;
  const period = currentPeriod(subscription);
  const { netCents } = period ? await dueCompute(deps.pool, metered, period, at) : { netCents: 0 };
  const rates = await deps.provider.ask((stripe) => readTaxRates(stripe, lines));
  const compute = lines.find((line) => isCompute(line, computeItems));
  const ran = netCents + taxOn(netCents, compute, rates);
  const total = sum(lines.filter((line) => !isCompute(line, computeItems)).map(askedCents)) + ran;
  const before = balance.cents;
  const remaining = chargeOf(total, balance);
  const none = { pre_payment_credit_notes_amount: 0, post_payment_credit_notes_amount: 0 };
  const { unusedCents } = partsOf(lines, computeItems, at);
  return { ...none, total, lines, unusedCents, amount_remaining: remaining, taken: balance.cents - before };
}

type Draft = { draft: Stripe.Invoice; metered: Metered; computeItems: ReadonlySet<string>; at: number };

/** Returns the lines of a draft, and its total with compute as the ledger has it, less the plan's credit. */
async function readDraft({ pool, provider }: Deps, { draft, metered, computeItems, at }: Draft) {
  const lines = await provider.ask((stripe) => readLines(stripe, draft));
  const others = lines.filter((line) => !isCompute(line, computeItems));
  const rates = await provider.ask((stripe) => readTaxRates(stripe, lines));
  const compute = [];
  for (const line of lines.filter((line) => isCompute(line, computeItems))) {
    const { dueCents, netCents } = await dueCompute(pool, metered, line.period, at);
    compute.push({ dueCents, cents: netCents + taxOn(netCents, line, rates) });
  }
  return {
    lines,
    cents: sum(others.map(askedCents)) + sum(compute.map(({ cents }) => cents)),
    hasCompute: compute.some(({ dueCents }) => dueCents > 0),
  };
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
      (stripe) => stripe.invoices.createPreview({ subscription, subscription_details }),
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
