import type { InvoiceLine } from "../../../../proto/gen/berth/billing/v1/billing_pb.ts";
import type * as billing from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { nameText, onDay } from "../../notices/text.ts";

/** Formats cents: `$1,000.00`. */
export function dollars(cents: bigint): string {
  return new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" }).format(Number(cents) / 100);
}

type Invoice = Pick<billing.InvoiceMirrored, "number" | "lines" | "dueCents" | "totalCents">;

/** Returns what is charged of an invoice; an event of an earlier version says only its total. */
export const chargedOf = ({ dueCents, totalCents, lines }: Invoice) =>
  lines.length > 0 ? dueCents : totalCents;

/** Returns "invoice ADA-0003", or "an invoice" of one without a number. */
export const invoiceName = ({ number }: Pick<Invoice, "number">) =>
  number === "" ? "an invoice" : `invoice ${nameText(number)}`;

/** Returns what an invoice is for, a line for each; "" if that is not known. */
export function invoiceText({ lines }: Invoice): string {
  return lines.map((line) => `\n${lineName(line)}: ${dollars(line.amountCents)}`).join("");
}

/** The lines that have no period. */
const AMOUNTS: Record<string, string> = {
  discount: "Discount of your promo code",
  credit: "Paid by the compute credit of the plan",
  tax: "Taxes",
  balance: "Balance of the account",
};

function lineName(line: InvoiceLine): string {
  const { kind, proration } = line;
  const amount = AMOUNTS[kind];
  if (amount) return amount;
  const name = proration ? `${thing(line)}, change within the period` : thing(line);
  const [from, until] = [line.periodStart, line.periodEnd].map((at) => onDay(at).replace(" on ", ""));
  return from && until ? `${name}, ${from} to ${until}` : name;
}

function thing({ kind, tier, quantity, description }: InvoiceLine): string {
  switch (kind) {
    case "plan":
      return `The ${tier} plan`;
    case "seat":
      return members(Number(quantity));
    case "compute":
      return "Compute that ran";
    default:
      return description === "" ? "Other" : nameText(description);
  }
}

/** Returns "1 additional member". */
export const members = (count: number) => `${count} additional member${count === 1 ? "" : "s"}`;
