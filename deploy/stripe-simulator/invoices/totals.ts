import type Stripe from "stripe";
import { toCouponShares } from "../catalog/coupon-shares.ts";
import { usageOf } from "../catalog/meters.ts";
import { amountOf } from "../catalog/prices.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";
import { isMetered } from "./lines.ts";

type Line = Stripe.InvoiceLineItem;

/** Brings the use, the discounts and the totals of a draft up to date. */
export function computeTotals(world: World, invoice: Stripe.Invoice): void {
  const lines = invoice.lines.data;
  for (const line of lines) {
    countUse(world, invoice, line);
    line.discount_amounts = [];
    line.pretax_credit_amounts = [];
  }
  for (const discount of invoice.discounts) applyDiscount(world, lines, idOf(discount));
  const ofLines = new Set(lines.flatMap(({ discounts }) => discounts.map(idOf)));
  for (const discount of ofLines)
    applyDiscount(
      world,
      lines.filter((line) => line.discounts.includes(discount)),
      discount,
    );
  sumUp(invoice);
}

/** Sums up the lines of an invoice, whose discounts and credits are known. */
export function sumUp(invoice: Stripe.Invoice): void {
  const lines = invoice.lines.data;
  const discounts = new Map<string, number>();
  const credits: Stripe.Invoice.TotalPretaxCreditAmount[] = [];
  for (const line of lines) {
    for (const { discount, amount } of line.discount_amounts ?? [])
      discounts.set(idOf(discount), (discounts.get(idOf(discount)) ?? 0) + amount);
    credits.push(...(line.pretax_credit_amounts ?? []));
  }
  invoice.subtotal = sum(lines.map(({ amount }) => amount));
  invoice.subtotal_excluding_tax = invoice.subtotal;
  invoice.total_discount_amounts = [...discounts].map(([discount, amount]) => ({ discount, amount }));
  invoice.total_pretax_credit_amounts = credits;
  invoice.total = invoice.subtotal - sum(credits.map(({ amount }) => amount));
  invoice.total_excluding_tax = invoice.total;
  invoice.amount_due = Math.max(0, invoice.total);
  invoice.amount_remaining = invoice.amount_due;
}

/** Returns what a line costs after its discounts and credits. */
export function netOf(line: Line): number {
  return line.amount - sum((line.pretax_credit_amounts ?? []).map(({ amount }) => amount));
}

function countUse(world: World, invoice: Stripe.Invoice, line: Line): void {
  const price = world.state.prices.get(idOf(line.pricing?.price_details?.price ?? ""));
  if (!price || !isMetered(price) || !price.recurring?.meter) return;
  const { start, end } = line.period;
  // What was used in the very second of an immediate end belongs to the final invoice.
  const period = { start, end: end === invoice.created ? end + 1 : end };
  line.quantity = usageOf(world, price.recurring.meter, idOf(invoice.customer ?? ""), period);
  line.amount = amountOf(price, line.quantity);
  line.subtotal = line.amount;
}

function applyDiscount({ state }: World, lines: Line[], discountId: string): void {
  const coupon = state.coupons.get(idOf(state.discounts.get(discountId)?.source.coupon ?? ""));
  if (!coupon) return;
  const eligible = lines.filter((line) => line.discountable);
  const amounts = toCouponShares(
    coupon,
    eligible.map((line) => ({ product: line.pricing?.price_details?.product ?? "", amount: netOf(line) })),
  );
  for (const [index, line] of eligible.entries()) {
    const amount = amounts[index]!;
    if (amount === 0) continue;
    line.discount_amounts!.push({ amount, discount: discountId });
    line.pretax_credit_amounts!.push({ amount, discount: discountId, type: "discount" });
  }
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/**
 * Pays metered lines from the customer's credit grants: those that end first before others, within the same priority.
 */
export function applyCredits({ state, clock }: World, invoice: Stripe.Invoice): void {
  const now = clock.now();
  const usable = [...state.creditGrants.values()].filter(
    (grant) =>
      grant.customer === invoice.customer &&
      grant.voided_at === null &&
      (grant.effective_at ?? 0) <= now &&
      (grant.expires_at === null || grant.expires_at > now),
  );
  const never = Number.POSITIVE_INFINITY;
  usable.sort(
    (a, b) =>
      (a.priority ?? 50) - (b.priority ?? 50) ||
      (a.expires_at ?? never) - (b.expires_at ?? never) ||
      b.category.localeCompare(a.category) ||
      a.created - b.created,
  );
  for (const line of invoice.lines.data) {
    const price = state.prices.get(idOf(line.pricing?.price_details?.price ?? ""));
    if (!price || !isMetered(price)) continue;
    for (const grant of usable.filter(({ applicability_config: { scope } }) =>
      scope.prices ? scope.prices.some(({ id }) => id === price.id) : true,
    )) {
      const used = [...state.creditUses.values()].filter((use) => use.grant === grant.id);
      const left = (grant.amount.monetary?.value ?? 0) - sum(used.map(({ amount }) => amount));
      const amount = Math.min(left, netOf(line));
      if (amount <= 0) continue;
      const use = {
        id: newId("cbtxn"),
        grant: grant.id,
        invoice: invoice.id,
        line: line.id,
        amount,
        created: now,
      };
      state.creditUses.set(use.id, use);
      line.pretax_credit_amounts!.push({
        amount,
        credit_balance_transaction: use.id,
        type: "credit_balance_transaction",
      });
    }
  }
  sumUp(invoice);
}
