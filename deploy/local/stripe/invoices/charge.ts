import type Stripe from "stripe";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";

export type ChargeResult = "paid" | "declined" | "no_payment_method";

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

/** Charges an open invoice to a card. The first charge of a card that fails later succeeds when `first` is set. */
export function charge(
  world: World,
  invoice: Stripe.Invoice,
  method: string | undefined,
  first = false,
): ChargeResult {
  const { state, clock } = world;
  if (invoice.amount_due > 0) {
    invoice.attempt_count++;
    invoice.attempted = true;
    if (method === undefined) return "no_payment_method";
    const outcome = state.cardOutcomes.get(method);
    if (outcome === "declines" || (outcome === "fails_later" && !first)) return "declined";
    recordPayment(world, invoice, method);
  }
  invoice.attempted = true;
  invoice.amount_paid = invoice.amount_due;
  invoice.amount_remaining = 0;
  invoice.status = "paid";
  invoice.next_payment_attempt = null;
  invoice.status_transitions.paid_at = clock.now();
  world.emit("invoice.paid", invoice);
  world.emit("invoice.payment_succeeded", invoice);
  return "paid";
}

function recordPayment({ state, clock, emit }: World, invoice: Stripe.Invoice, method: string): void {
  const now = clock.now();
  const intent = newId("pi");
  const amount = invoice.amount_remaining;
  state.payments.set(intent, {
    id: intent,
    charge: newId("ch"),
    amount,
    refunded: 0,
    customer: idOf(invoice.customer ?? ""),
    invoice: invoice.id,
    payment_method: method,
  });
  const payment = {
    id: newId("inpay"),
    object: "invoice_payment",
    amount_paid: amount,
    amount_requested: amount,
    created: now,
    currency: "usd",
    invoice: invoice.id,
    is_default: true,
    livemode: false,
    payment: { payment_intent: intent, type: "payment_intent" },
    status: "paid",
    status_transitions: { canceled_at: null, paid_at: now },
  } satisfies Stripe.InvoicePayment;
  state.invoicePayments.set(payment.id, payment);
  emit("invoice_payment.paid", payment);
}
