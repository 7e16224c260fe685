import Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";
import { percentOfRate, toTax } from "./taxes.ts";

type LineRequest = Stripe.CreditNoteCreateParams.Line;

/** Returns the lines of a credit note, each with its share of the discounts and credits of the invoice line. */
export function toNoteLines(
  world: World,
  invoice: Stripe.Invoice,
  { lines, amount }: Pick<Stripe.CreditNoteCreateParams, "lines" | "amount">,
): Stripe.CreditNoteLineItem[] {
  if ((lines === undefined) === (amount === undefined))
    throw invalid("You must provide exactly one of lines and amount.", "lines");
  const isTaxed = invoice.automatic_tax.enabled;
  if (isTaxed && lines?.some(({ type }) => type === "custom_line_item"))
    throw invalid("A custom line is not valid for an invoice with automatic tax.", "lines");
  if (amount !== undefined)
    return [toCustomLine({ description: "Credit", quantity: 1, unit_amount: amount })];
  return lines!.map((line, index) =>
    line.type === "custom_line_item"
      ? toCustomLine(line)
      : toInvoiceLine(world, invoice, line, `lines[${index}]`),
  );
}

function toInvoiceLine(
  world: World,
  invoice: Stripe.Invoice,
  { invoice_line_item: id, amount, quantity, description }: LineRequest,
  param: string,
): Stripe.CreditNoteLineItem {
  const line = invoice.lines.data.find((one) => one.id === id);
  if (!line) throw invalid(`No such line item: '${id}'`, `${param}[invoice_line_item]`, "resource_missing");
  if ((amount === undefined) === (quantity === undefined))
    throw invalid("You must provide exactly one of amount and quantity.", `${param}[amount]`);
  const gross = amount ?? Math.round((line.amount * quantity!) / (line.quantity || 1));
  const left = line.amount - creditedOf(world, line.id);
  if (gross > left)
    throw invalid(
      `The amount to credit (${gross}) is more than what is left of the line item (${left}).`,
      `${param}[amount]`,
    );
  const shareOf = (whole: number) => (line.amount === 0 ? 0 : Math.round((whole * gross) / line.amount));
  const discounts = (line.discount_amounts ?? []).map((one) => ({ ...one, amount: shareOf(one.amount) }));
  const taken = (line.pretax_credit_amounts ?? []).reduce((sum, one) => sum + shareOf(one.amount), 0);
  return toRow({
    type: "invoice_line_item",
    taxes: (line.taxes ?? []).map(({ tax_rate_details: rate }) =>
      toTax(rate!.tax_rate, percentOfRate(rate!.tax_rate), gross - taken),
    ),
    amount: gross,
    description: description ?? line.description,
    discount_amount: discounts.reduce((sum, one) => sum + one.amount, 0),
    discount_amounts: discounts,
    invoice_line_item: line.id,
    pretax_credit_amounts: (line.pretax_credit_amounts ?? []).map((one) => ({
      type: one.type,
      amount: shareOf(one.amount),
      ...(one.discount && { discount: one.discount }),
      ...(one.credit_balance_transaction && { credit_balance_transaction: one.credit_balance_transaction }),
    })),
    quantity: quantity ?? null,
    unit_amount: null,
  });
}

function toCustomLine({ description, quantity = 1, unit_amount }: Partial<LineRequest>) {
  if (unit_amount === undefined || !description)
    throw invalid("A custom line needs description and unit_amount.", "lines", "parameter_missing");
  return toRow({
    type: "custom_line_item",
    taxes: [],
    amount: unit_amount * quantity,
    description,
    discount_amount: 0,
    discount_amounts: [],
    pretax_credit_amounts: [],
    quantity,
    unit_amount,
  });
}

type Row = Omit<
  Stripe.CreditNoteLineItem,
  "id" | "object" | "livemode" | "metadata" | "tax_rates" | "unit_amount_decimal"
>;

function toRow(row: Row): Stripe.CreditNoteLineItem {
  return {
    id: newId("cnli"),
    object: "credit_note_line_item",
    livemode: false,
    metadata: {},
    tax_rates: [],
    unit_amount_decimal: row.unit_amount === null ? null : Stripe.Decimal.from(row.unit_amount),
    ...row,
  } satisfies Stripe.CreditNoteLineItem;
}

/** Returns the amount of a line that earlier credit notes credited, before discounts. */
function creditedOf({ state }: World, line: string): number {
  let credited = 0;
  for (const note of state.creditNotes.values())
    for (const one of note.lines.data) if (one.invoice_line_item === line) credited += one.amount;
  return credited;
}

/** Returns the net amount of a credit note line, with tax. */
export function creditOf(line: Stripe.CreditNoteLineItem): number {
  const credits = line.pretax_credit_amounts.reduce((sum, { amount }) => sum + amount, 0);
  return line.amount - credits + (line.taxes ?? []).reduce((sum, { amount }) => sum + amount, 0);
}

/** Returns the payment of an invoice, if a card paid it. */
export function paymentOf({ state }: World, invoice: Stripe.Invoice) {
  const row = [...state.invoicePayments.values()].find((one) => idOf(one.invoice) === invoice.id);
  return state.payments.get(idOf(row?.payment.payment_intent ?? ""));
}
