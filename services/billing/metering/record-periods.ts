import type Stripe from "stripe";
import type { Tx } from "../../kit/postgres/db.ts";
import type { MirroredSubscription } from "../subscription/mirror.ts";
import { putComputePeriod } from "../usage/closing/compute-periods.ts";
import * as sql from "./sql.ts";

const seconds = (date: Date) => Math.floor(date.getTime() / 1_000);

/**
 * Records the periods of the compute items of a customer's subscriptions, for the ledger and for what is reported to the
 * provider: the present ones, of which that of a subscription that has ended ends with it, and those that passed unseen,
 * of which only invoices tell. Safe to repeat.
 */
export async function recordComputePeriods(
  tx: Tx,
  customerId: string,
  subscriptions: MirroredSubscription[],
  invoiced: sql.InvoicedPeriod[],
): Promise<void> {
  // The period of one that has ended must not cut that of the next.
  const byEnd = subscriptions.toSorted((a, b) => Number(!a.endedAt) - Number(!b.endedAt));
  for (const { id, accountId, tier, compute, endedAt } of byEnd) {
    if (!compute) continue;
    const start = seconds(compute.start);
    const end = Math.min(seconds(compute.end), endedAt ? seconds(endedAt) : Number.POSITIVE_INFINITY);
    const known = new Set([start, ...(await sql.listStarts(tx, id))]);
    const unseen = invoiced.filter((one) => one.subscriptionId === id && !known.has(one.start));
    for (const period of [...unseen.toSorted((a, b) => a.start - b.start), { start, end }]) {
      if (period.end <= period.start) continue;
      const { start, end } = period;
      await putComputePeriod(tx, accountId, { start, end, tier });
      await sql.putPeriod(tx, { subscriptionId: id, accountId, customerId, tier, start, end });
    }
  }
}

/** Returns what an invoice asks for periods of compute items, once it is no draft. Pure. */
export function invoicedPeriods(
  { id, status, lines }: Stripe.Invoice,
  computeItems: ReadonlySet<string>,
): sql.InvoicedPeriod[] {
  if (id === undefined || status === "draft") return [];
  return lines.data.flatMap(({ parent, period, amount }) => {
    const { subscription_item: item = "", subscription } = parent?.subscription_item_details ?? {};
    if (!computeItems.has(item) || !subscription) return [];
    return { subscriptionId: subscription, ...period, invoiceId: id, cents: amount };
  });
}
