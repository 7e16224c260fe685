import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type Stripe from "stripe";
import type { InvoiceLineSchema } from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import { kindOfProduct } from "../pricing/keys.ts";

/** A line of an invoice as events carry it. */
export type InvoiceLine = MessageInitShape<typeof InvoiceLineSchema>;

/**
 * Returns what an invoice is for: its lines that are not 0, and the discounts, credits, taxes and balance that together
 * with them make the amount that is charged. Pure.
 */
export function invoiceLines(invoice: Stripe.Invoice): InvoiceLine[] {
  const { total, amount_due: due, total_pretax_credit_amounts: credits } = invoice;
  const discount = sum(invoice.total_discount_amounts);
  const credit = sum((credits ?? []).filter(({ type }) => type === "credit_balance_transaction"));
  const lines = invoice.lines.data.map(toLine);
  const shown = lines.reduce((amount, line) => amount + Number(line.amountCents), 0);
  const others = [
    { kind: "discount", amount: -discount },
    { kind: "credit", amount: -credit },
    // Whatever else is in the total: taxes, where they are not in the prices.
    { kind: "tax", amount: total - (shown - discount - credit) },
    { kind: "balance", amount: due - total },
  ];
  return [
    ...lines.filter(({ amountCents }) => amountCents !== 0n),
    ...others.flatMap(({ kind, amount }) => (amount === 0 ? [] : { kind, amountCents: BigInt(amount) })),
  ];
}

function toLine({ amount, quantity, period, pricing, parent, description }: Stripe.InvoiceLineItem) {
  const found = kindOfProduct(pricing?.price_details?.product ?? "");
  const { subscription_item_details: item, invoice_item_details: other } = parent ?? {};
  return {
    ...(found ?? { kind: "other", description: description ?? "" }),
    quantity: BigInt(quantity ?? 0),
    amountCents: BigInt(amount),
    periodStart: timestampFromMs(period.start * 1_000),
    periodEnd: timestampFromMs(period.end * 1_000),
    proration: item?.proration ?? other?.proration ?? false,
  };
}

const sum = (amounts: { amount: number }[] | null) =>
  (amounts ?? []).reduce((total, { amount }) => total + amount, 0);
