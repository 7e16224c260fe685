import type Stripe from "stripe";
import type { Tx } from "../../kit/postgres/db.ts";
import { exclusiveTax } from "../invoices/subscribed-lines.ts";
import type { MirroredSubscription } from "../subscription/mirror-subscription.ts";
import { putComputePeriod } from "../usage/closing/compute-periods.ts";
import * as sql from "./sql.ts";

const seconds = (date: Date) => Math.floor(date.getTime() / 1_000);

/**
 * Returns the periods of the compute items of a customer's subscriptions: the present ones, of which that of a
 * subscription that has ended ends with it, and those that passed unnoticed, which only invoices show, drafts included.
 * `known` are the starts of the periods that are recorded, by subscription. Pure.
 */
export function meteredPeriods(
  customerId: string,
  subscriptions: MirroredSubscription[],
  invoiced: sql.InvoicedPeriod[],
  known: ReadonlyMap<string, number[]>,
): sql.MeteredPeriod[] {
  // The period of one that has ended must not cut that of the next.
  const byEnd = subscriptions.toSorted((a, b) => Number(!a.endedAt) - Number(!b.endedAt));
  return byEnd.flatMap(({ id: subscriptionId, accountId, tier, compute, endedAt }) => {
    if (!compute) return [];
    const start = seconds(compute.start);
    const starts = known.get(subscriptionId) ?? [];
    // One that ends in the second in which its period began: what is recorded of that must not last for the whole period.
    const least = starts.includes(start) ? start + 1 : start;
    const cut = endedAt ? Math.max(least, seconds(endedAt)) : Number.POSITIVE_INFINITY;
    const end = Math.min(seconds(compute.end), cut);
    const seen = new Set([start, ...starts]);
    const unseen = invoiced
      .filter((period) => period.subscriptionId === subscriptionId && !seen.has(period.start))
      .toSorted((a, b) => a.start - b.start);
    return [...unseen, { start, end }]
      .filter((period) => period.end > period.start)
      .map(({ start, end }) => ({ subscriptionId, accountId, customerId, tier, start, end }));
  });
}

/** Records periods, for the ledger and for what is reported to the provider. Safe to repeat. */
export async function recordPeriods(tx: Tx, periods: sql.MeteredPeriod[]): Promise<void> {
  for (const period of periods) {
    const { accountId, start, end, tier } = period;
    await putComputePeriod(tx, accountId, { start, end, tier });
    await sql.putPeriod(tx, period);
  }
}

/** Returns what an invoice asks for periods of compute items. Pure. */
export function invoicedPeriods(
  { id, status, lines }: Stripe.Invoice,
  computeItems: ReadonlySet<string>,
): sql.InvoicedPeriod[] {
  if (id === undefined) return [];
  return lines.data.flatMap(({ parent, period, amount, taxes }) => {
    const { subscription_item: item = "", subscription } = parent?.subscription_item_details ?? {};
    if (!computeItems.has(item) || !subscription) return [];
    return {
      subscriptionId: subscription,
      ...period,
      invoiceId: id,
      isDraft: status === "draft",
      cents: amount,
      taxCents: exclusiveTax(taxes),
    };
  });
}
