import type Stripe from "stripe";
import { dispute } from "../invoices/disputes.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";

export type ChargeResult = "paid" | "declined" | "action_required" | "no_payment_method";

/** Returns the payment method of an invoice: its subscription's, or else its customer's. */
export function methodOf({ state }: World, invoice: Stripe.Invoice): string | undefined {
  const subscription = subscriptionOf({ state }, invoice);
  const customer = state.customers.get(idOf(invoice.customer ?? ""));
  const method = subscription?.default_payment_method ?? customer?.invoice_settings.default_payment_method;
  return method ? idOf(method) : undefined;
}

/** Returns the subscription of an invoice. */
export function subscriptionOf(
  { state }: Pick<World, "state">,
  invoice: Stripe.Invoice,
): Stripe.Subscription | undefined {
  return state.subscriptions.get(idOf(invoice.parent?.subscription_details?.subscription ?? ""));
}

/** Who initiates a charge: the schedule, the payer on a page of Stripe's, or the checkout of a new subscription. */
export type ChargedBy = "schedule" | "payer" | "checkout";

/**
 * Charges an open invoice to a card. A card with the outcome `fails_later` succeeds at the checkout; one with
 * `needs_action` succeeds when the payer is present.
 */
export function charge(
  world: World,
  invoice: Stripe.Invoice,
  method: string | undefined,
  by: ChargedBy,
): ChargeResult {
  const { state, clock } = world;
  if (invoice.amount_due > 0) {
    invoice.attempt_count++;
    invoice.attempted = true;
    if (method === undefined) return "no_payment_method";
    const outcome = state.cardOutcomes.get(method);
    if (outcome === "declines" || (outcome === "fails_later" && by !== "checkout")) return "declined";
    const isWaiting = outcome === "needs_action" && by === "schedule";
    recordPayment(world, invoice, method, isWaiting);
    if (isWaiting) return "action_required";
  }
  invoice.attempted = true;
  invoice.amount_paid = invoice.amount_due;
  invoice.amount_remaining = 0;
  invoice.status = "paid";
  invoice.next_payment_attempt = null;
  invoice.status_transitions.paid_at = clock.now();
  world.emit("invoice.paid", invoice);
  world.emit("invoice.payment_succeeded", invoice);
  const paid = [...state.payments.values()].findLast((one) => one.invoice === invoice.id);
  if (paid && state.cardOutcomes.get(paid.payment_method) === "disputes") dispute(world, paid, {});
  return "paid";
}

/** Records the payment of an invoice, succeeded or waiting for its payer. */
function recordPayment(world: World, invoice: Stripe.Invoice, method: string, isWaiting: boolean): void {
  const { state, clock, emit } = world;
  const now = clock.now();
  const before = [...state.invoicePayments.values()].find(
    (one) => one.invoice === invoice.id && one.status === "open",
  );
  const intent = before ? idOf(before.payment.payment_intent ?? "") : newId("pi");
  const amount = invoice.amount_remaining;
  const customer = idOf(invoice.customer ?? "");
  const status = isWaiting ? "requires_action" : "succeeded";
  state.paymentIntents.set(intent, { id: intent, object: "payment_intent", amount, customer, status });
  if (!isWaiting)
    state.payments.set(intent, {
      id: intent,
      charge: newId("ch"),
      amount,
      refunded: 0,
      customer,
      invoice: invoice.id,
      payment_method: method,
    });
  const payment = {
    id: before?.id ?? newId("inpay"),
    object: "invoice_payment",
    amount_paid: isWaiting ? null : amount,
    amount_requested: amount,
    created: now,
    currency: "usd",
    invoice: invoice.id,
    is_default: true,
    livemode: false,
    payment: { payment_intent: intent, type: "payment_intent" },
    status: isWaiting ? "open" : "paid",
    status_transitions: { canceled_at: null, paid_at: isWaiting ? null : now },
  } satisfies Stripe.InvoicePayment;
  state.invoicePayments.set(payment.id, payment);
  if (!isWaiting) emit("invoice_payment.paid", payment);
}
