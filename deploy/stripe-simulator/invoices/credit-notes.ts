import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import {
  clearable,
  integer,
  list,
  map,
  mergeMetadata,
  natural,
  object,
  oneOf,
  range,
  text,
} from "../http/params.ts";
import { listRoute, type Route, route, select, toList } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";
import { creditOf, paymentOf, toNoteLines } from "./credit-note-lines.ts";
import { refund } from "./refunds.ts";

type Params = Stripe.CreditNoteCreateParams;

const PARAMS = object<Params>(
  {
    invoice: text,
    amount: natural,
    credit_amount: natural,
    email_type: oneOf("credit_note", "none"),
    lines: list(
      object<Stripe.CreditNoteCreateParams.Line>(
        {
          type: oneOf("custom_line_item", "invoice_line_item"),
          invoice_line_item: text,
          amount: natural,
          description: text,
          quantity: natural,
          unit_amount: integer,
        },
        "type",
      ),
    ),
    memo: text,
    metadata: map,
    out_of_band_amount: natural,
    reason: oneOf("duplicate", "fraudulent", "order_change", "product_unsatisfactory"),
    refund_amount: natural,
  },
  "invoice",
);

/** Credit notes: reductions of finalized invoices. */
export function creditNoteRoutes(world: World): Route[] {
  const { creditNotes } = world.state;
  return [
    route("GET", "/v1/credit_notes/preview", PARAMS, (params) => toNote(world, params).note),
    route("POST", "/v1/credit_notes", PARAMS, (params) => createNote(world, params)),
    route("GET", "/v1/credit_notes/:id", object({}), (_, id) => need(creditNotes, "credit_note", id!)),
    listRoute("/v1/credit_notes/:id/lines", object({}), (_, id) =>
      need(creditNotes, "credit_note", id!).lines.data.toReversed(),
    ),
    route(
      "POST",
      "/v1/credit_notes/:id",
      object<Stripe.CreditNoteUpdateParams>({ memo: text, metadata: clearable(map) }),
      ({ memo, metadata }, id) => {
        const note = need(creditNotes, "credit_note", id!);
        if (memo !== undefined) note.memo = memo;
        note.metadata = mergeMetadata(note.metadata, metadata);
        world.emit("credit_note.updated", note);
        return note;
      },
    ),
    listRoute(
      "/v1/credit_notes",
      object<Stripe.CreditNoteListParams>({ created: range, customer: text, invoice: text }),
      (filter) => select(creditNotes.values(), filter),
    ),
  ];
}

/** Returns a credit note without issuing it. Throws when it cannot be issued. */
function toNote(world: World, params: Params) {
  const { state, clock } = world;
  const invoice = need(state.invoices, "invoice", params.invoice, "invoice");
  if (invoice.status !== "open" && invoice.status !== "paid")
    throw invalid(
      "You can only create a credit note for a finalized invoice that is open or paid.",
      "invoice",
    );
  const lines = toNoteLines(world, invoice, params);
  const total = lines.reduce((sum, line) => sum + creditOf(line), 0);
  if (total <= 0) throw invalid("The credit note's total must be more than 0.", "lines");
  const prePayment = invoice.status === "open" ? Math.min(total, invoice.amount_remaining) : 0;
  const postPayment = total - prePayment;
  const most = creditableOf(world, invoice);
  if (postPayment > most)
    throw invalid(
      `The credit note's amount (${postPayment}) is more than what can be credited (${most}).`,
      "amount",
    );
  const id = newId("cn");
  const discount = lines.reduce((sum, line) => sum + line.discount_amount, 0);
  const taxes = lines.flatMap((line) => line.taxes ?? []).reduce((sum, { amount }) => sum + amount, 0);
  const gross = lines.reduce((sum, line) => sum + line.amount, 0);
  const note = {
    id,
    object: "credit_note",
    amount: total,
    amount_shipping: 0,
    created: clock.now(),
    currency: "usd",
    customer: idOf(invoice.customer ?? ""),
    customer_account: null,
    customer_balance_transaction: null,
    discount_amount: discount,
    discount_amounts: lines.flatMap((line) => line.discount_amounts),
    effective_at: clock.now(),
    invoice: invoice.id,
    lines: toList(lines, `/v1/credit_notes/${id}/lines`),
    livemode: false,
    memo: params.memo ?? null,
    metadata: mergeMetadata({}, params.metadata),
    number: `${invoice.number}-CN-${String(state.counters.creditNote + 1).padStart(2, "0")}`,
    out_of_band_amount: params.out_of_band_amount ?? null,
    pdf: `${invoice.hosted_invoice_url}/pdf`,
    post_payment_amount: postPayment,
    pre_payment_amount: prePayment,
    pretax_credit_amounts: lines.flatMap((line) => line.pretax_credit_amounts),
    reason: params.reason ?? null,
    refunds: [],
    shipping_cost: null,
    status: "issued",
    subtotal: gross,
    subtotal_excluding_tax: gross,
    total,
    total_excluding_tax: total - taxes,
    total_taxes: [],
    type: prePayment === 0 ? "post_payment" : postPayment === 0 ? "pre_payment" : "mixed",
    voided_at: null,
  } satisfies Stripe.CreditNote;
  return { note: note as Stripe.CreditNote, invoice };
}

/** Returns the paid amount that credit notes and refunds have not returned yet. */
function creditableOf(world: World, invoice: Stripe.Invoice): number {
  const notes = [...world.state.creditNotes.values()].filter((note) => note.invoice === invoice.id);
  const refundsOfNotes = notes
    .flatMap((note) => note.refunds)
    .reduce((sum, one) => sum + one.amount_refunded, 0);
  const refundsOfOthers = Math.max(0, (paymentOf(world, invoice)?.refunded ?? 0) - refundsOfNotes);
  const paid = invoice.total - invoice.pre_payment_credit_notes_amount - invoice.amount_remaining;
  return Math.max(0, paid) - invoice.post_payment_credit_notes_amount - refundsOfOthers;
}

function createNote(world: World, params: Params): Stripe.CreditNote {
  const { state } = world;
  const { note, invoice } = toNote(world, params);
  const { refund_amount: cash = 0, credit_amount: credit = 0, out_of_band_amount: outOfBand = 0 } = params;
  if (cash + credit + outOfBand !== note.post_payment_amount)
    throw invalid(
      `The sum of refund_amount, credit_amount and out_of_band_amount must equal the post payment amount (${note.post_payment_amount}).`,
      "refund_amount",
    );
  const payment = paymentOf(world, invoice);
  if (cash > 0) {
    if (!payment) throw invalid("There is no payment of this invoice to refund.", "refund_amount");
    const made = refund(world, payment, { amount: cash, reason: null, metadata: note.metadata ?? {} });
    note.refunds = [{ amount_refunded: cash, payment_record_refund: null, refund: made.id, type: "refund" }];
  }
  if (credit > 0) {
    const customer = needCustomer(state, idOf(note.customer));
    customer.balance -= credit;
    note.customer_balance_transaction = newId("cbtxn");
    world.emit("customer.updated", customer);
  }
  state.counters.creditNote++;
  state.creditNotes.set(note.id, note);
  invoice.post_payment_credit_notes_amount += note.post_payment_amount;
  takeOff(world, invoice, note.pre_payment_amount);
  world.emit("credit_note.created", note);
  world.emit("invoice.updated", invoice);
  return note;
}

/** Reduces the amount due of an open invoice; at zero it is paid. */
function takeOff({ clock, emit }: World, invoice: Stripe.Invoice, amount: number): void {
  if (amount === 0) return;
  invoice.pre_payment_credit_notes_amount += amount;
  invoice.amount_due -= amount;
  invoice.amount_remaining -= amount;
  if (invoice.amount_remaining > 0) return;
  invoice.status = "paid";
  invoice.next_payment_attempt = null;
  invoice.status_transitions.paid_at = clock.now();
  emit("invoice.paid", invoice);
}
