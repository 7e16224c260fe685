import type Stripe from "stripe";
import { declined, invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import { clearable, flag, map, mergeMetadata, object, oneOf, range, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { finalize } from "../invoices/finalize.ts";
import { idOf, type World } from "../state/world.ts";
import { subscriptionOf } from "./charge.ts";
import { collect, resumeCollection } from "./collect.ts";

/** Invoices, their lines and their payments. */
export function invoiceRoutes(world: World): Route[] {
  const { invoices, previews, invoicePayments } = world.state;
  const needInvoice = (id: string) => need(invoices, "invoice", id);
  const needOpen = (id: string, what: string) => {
    const invoice = needInvoice(id);
    if (invoice.status !== "open") throw invalid(`You can only ${what} an open invoice.`, "invoice");
    return invoice;
  };
  return [
    listRoute(
      "/v1/invoices",
      object<Stripe.InvoiceListParams>({
        created: range,
        customer: text,
        status: oneOf("draft", "open", "paid", "uncollectible", "void"),
        subscription: text,
      }),
      ({ subscription, ...filter }) =>
        select(invoices.values(), filter).filter(
          (invoice) => subscription === undefined || subscriptionOf(world, invoice)?.id === subscription,
        ),
    ),
    route("GET", "/v1/invoices/:id", object({}), (_, id) => needInvoice(id!)),
    listRoute("/v1/invoices/:id/lines", object({}), (_, id) =>
      (previews.get(id!) ?? needInvoice(id!)).lines.data.toReversed(),
    ),
    route(
      "POST",
      "/v1/invoices/:id",
      object<Stripe.InvoiceUpdateParams>({
        auto_advance: flag,
        description: clearable(text),
        metadata: clearable(map),
      }),
      ({ auto_advance, description, metadata }, id) => {
        const invoice = needInvoice(id!);
        if (auto_advance !== undefined) invoice.auto_advance = auto_advance;
        if (auto_advance) resumeCollection(world, invoice);
        if (description !== undefined) invoice.description = description || null;
        invoice.metadata = mergeMetadata(invoice.metadata, metadata);
        world.emit("invoice.updated", invoice);
        return invoice;
      },
    ),
    route(
      "POST",
      "/v1/invoices/:id/finalize",
      object<Stripe.InvoiceFinalizeInvoiceParams>({ auto_advance: flag }),
      ({ auto_advance }, id) => {
        const invoice = needInvoice(id!);
        if (auto_advance !== undefined) invoice.auto_advance = auto_advance;
        finalize(world, invoice);
        if (invoice.amount_due === 0) collect(world, invoice);
        return invoice;
      },
    ),
    route(
      "POST",
      "/v1/invoices/:id/pay",
      object<Stripe.InvoicePayParams>({ off_session: flag, payment_method: text }),
      ({ payment_method }, id) => pay(world, needInvoice(id!), payment_method),
    ),
    route("POST", "/v1/invoices/:id/void", object({}), (_, id) => {
      const invoice = needOpen(id!, "void");
      invoice.status = "void";
      invoice.next_payment_attempt = null;
      invoice.status_transitions.voided_at = world.clock.now();
      returnBalance(world, invoice);
      world.emit("invoice.voided", invoice);
      return invoice;
    }),
    route("POST", "/v1/invoices/:id/mark_uncollectible", object({}), (_, id) => {
      const invoice = needOpen(id!, "mark as uncollectible");
      invoice.status = "uncollectible";
      invoice.next_payment_attempt = null;
      invoice.status_transitions.marked_uncollectible_at = world.clock.now();
      world.emit("invoice.marked_uncollectible", invoice);
      return invoice;
    }),
    route("DELETE", "/v1/invoices/:id", object({}), (_, id) => {
      const invoice = needInvoice(id!);
      if (invoice.status !== "draft" || invoice.parent)
        throw invalid("You can only delete draft invoices that no subscription made.", "invoice");
      invoices.delete(invoice.id);
      world.emit("invoice.deleted", invoice);
      return { id: invoice.id, object: "invoice", deleted: true } satisfies Stripe.DeletedInvoice;
    }),
    listRoute(
      "/v1/invoice_payments",
      object<Stripe.InvoicePaymentListParams>({
        invoice: text,
        payment: object<Stripe.InvoicePaymentListParams.Payment>(
          { payment_intent: text, type: text },
          "type",
        ),
        status: text,
      }),
      ({ payment: of, ...filter }) =>
        select(invoicePayments.values(), filter).filter(
          ({ payment }) => !of?.payment_intent || payment.payment_intent === of.payment_intent,
        ),
    ),
    route("GET", "/v1/invoice_payments/:id", object({}), (_, id) =>
      need(invoicePayments, "invoice_payment", id!),
    ),
  ];
}

/** Returns to the customer what an invoice took from the balance, or added to it. */
function returnBalance(
  world: World,
  { customer: id, starting_balance, ending_balance }: Stripe.Invoice,
): void {
  const change = (ending_balance ?? starting_balance) - starting_balance;
  const customer = world.state.customers.get(idOf(id ?? ""));
  if (change === 0 || !customer) return;
  customer.balance -= change;
  world.emit("customer.updated", customer);
}

/** Pays an invoice ahead of its schedule; a draft is finalized first. */
function pay(world: World, invoice: Stripe.Invoice, method: string | undefined): Stripe.Invoice {
  if (invoice.status === "paid") throw invalid("Invoice is already paid", "invoice", "invoice_already_paid");
  if (invoice.status === "draft") finalize(world, invoice);
  if (invoice.status !== "open" && invoice.status !== "uncollectible")
    throw invalid("This invoice can no longer be paid.", "invoice");
  if (method !== undefined) need(world.state.paymentMethods, "PaymentMethod", method, "payment_method");
  const result = collect(world, invoice, method === undefined ? {} : { method });
  if (result === "declined") throw declined("generic_decline");
  if (result === "action_required") throw declined("authentication_required");
  if (result === "no_payment_method")
    throw invalid(
      "There is no `default_payment_method` set on this Customer or Invoice.",
      "payment_method",
      "resource_missing",
    );
  return invoice;
}
