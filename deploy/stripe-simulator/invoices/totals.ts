import type Stripe from "stripe";
import { toCouponShares } from "../catalog/coupon-shares.ts";
import { usageOf } from "../catalog/meters.ts";
import { amountOf, isMetered } from "../catalog/prices.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";
import { applyTaxes } from "./taxes.ts";

type Line = Stripe.InvoiceLineItem;

/** Recomputes the usage, the discounts and the totals of a draft. */
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
  sumUp(world, invoice);
}

/** Sums the lines of an invoice, once their discounts and credits are known. */
export function sumUp(world: World, invoice: Stripe.Invoice): void {
  applyTaxes(world, invoice);
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
  invoice.total_excluding_tax = invoice.subtotal - sum(credits.map(({ amount }) => amount));
  invoice.total_taxes = totalTaxes(lines);
  invoice.total = invoice.total_excluding_tax + sum(invoice.total_taxes.map(({ amount }) => amount));
  invoice.amount_due = Math.max(0, invoice.total);
  invoice.amount_remaining = invoice.amount_due;
}

/** Returns the taxes of lines, each rate once. */
function totalTaxes(lines: Line[]): Stripe.Invoice.TotalTax[] {
  const taxes = lines.flatMap((line) => line.taxes ?? []);
  const byRate = Map.groupBy(taxes, ({ tax_rate_details: rate }) => rate?.tax_rate);
  return [...byRate.values()].map((some) => ({
    ...some[0]!,
    amount: sum(some.map(({ amount }) => amount)),
    taxable_amount: sum(some.map(({ taxable_amount: taxable }) => taxable ?? 0)),
  }));
}

/** Returns the amount of a line after its discounts and credits. */
export function netOf(line: Line): number {
  return line.amount - sum((line.pretax_credit_amounts ?? []).map(({ amount }) => amount));
}

function countUse(world: World, invoice: Stripe.Invoice, line: Line): void {
  const price = world.state.prices.get(idOf(line.pricing?.price_details?.price ?? ""));
  if (!price || !isMetered(price) || !price.recurring?.meter) return;
  const { start, end } = line.period;
  // Usage in the second of an immediate end belongs to the final invoice; that of a renewal to the next period.
  const isFinal = end === invoice.created && invoice.billing_reason !== "subscription_cycle";
  const period = { start, end: isFinal ? end + 1 : end };
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
 * Pays metered lines from the customer's credit grants, by priority and then by the earliest expiry.
 */
export function applyCredits(world: World, invoice: Stripe.Invoice): void {
  const { state, clock } = world;
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
  sumUp(world, invoice);
}

/** Recomputes the drafts of a customer after new usage. */
export function refreshDrafts(world: World, customer: string): void {
  for (const invoice of world.state.invoices.values())
    if (invoice.status === "draft" && idOf(invoice.customer ?? "") === customer)
      computeTotals(world, invoice);
}
