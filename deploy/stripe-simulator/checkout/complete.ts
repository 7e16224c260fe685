import type Stripe from "stripe";
import { requireRedemptionLeft } from "../catalog/promotion-codes.ts";
import { collect } from "../collection/collect.ts";
import { attach, createCard } from "../customers/payment-methods.ts";
import type { TestCard } from "../customers/test-cards.ts";
import { declined, invalid } from "../http/errors.ts";
import { needCustomer } from "../http/lookup.ts";
import { mergeMetadata } from "../http/params.ts";
import { idOf, type World } from "../state/world.ts";
import { buildSubscription } from "../subscriptions/build.ts";
import { addDiscount } from "../subscriptions/discounts.ts";
import { startSubscription } from "../subscriptions/start.ts";

/**
 * Pays an open session with a card and creates its subscription. Throws card_declined, and coupon_expired when the last
 * redemption of its code went to somebody else; both leave it open. With `later` it is complete and unpaid until
 * `settleSession`, as with a bank debit.
 */
export function completeSession(
  world: World,
  session: Stripe.Checkout.Session,
  card: TestCard,
  later = false,
  country = "US",
): Stripe.Checkout.Session {
  if (session.status !== "open") throw invalid(`This Checkout Session is ${session.status}.`, "session");
  if (card.outcome === "declines") throw declined(card.decline);
  const order = world.state.orders.get(session.id)!;
  if (order.discount) requireRedemptionLeft(world, order.discount);
  const customer = idOf(session.customer!);
  const method = attach(world, createCard(world, card), customer);
  method.billing_details.email = session.customer_details?.email ?? null;
  if (session.automatic_tax.enabled) {
    setCountry(world, customer, country);
    session.automatic_tax.status = "complete";
  }
  const subscription = buildSubscription(world, {
    customer,
    automaticTax: session.automatic_tax.enabled,
    items: order.lines,
    billingMode: order.subscription.billing_mode?.type === "classic" ? "classic" : "flexible",
    defaultPaymentMethod: method.id,
    metadata: mergeMetadata({}, order.subscription.metadata),
    description: order.subscription.description ?? null,
  });
  if (order.discount)
    subscription.discounts = [addDiscount(world, subscription, order.discount, { session: session.id })];
  const invoice = startSubscription(world, subscription, later ? "later" : "succeeds");
  session.status = "complete";
  session.payment_status = invoice.total > 0 ? (later ? "unpaid" : "paid") : "no_payment_required";
  session.subscription = subscription.id;
  session.invoice = invoice.id;
  session.amount_total = invoice.total;
  session.url = null;
  world.emit("checkout.session.completed", session);
  return session;
}

/** Records the country that the payer gives on the page. */
function setCountry(world: World, id: string, country: string): void {
  const customer = needCustomer(world.state, id);
  customer.address = { city: null, country, line1: null, line2: null, postal_code: null, state: null };
  world.emit("customer.updated", customer);
}

/** Settles a session that is complete and unpaid: the bank debit succeeded or failed. */
export function settleSession(
  world: World,
  session: Stripe.Checkout.Session,
  isPaid: boolean,
): Stripe.Checkout.Session {
  const invoice = world.state.invoices.get(idOf(session.invoice ?? ""));
  if (session.payment_status !== "unpaid" || invoice?.status !== "open")
    throw invalid("This Checkout Session does not wait for its payment.", "session");
  if (isPaid) {
    collect(world, invoice, { by: "checkout" });
    session.payment_status = "paid";
    world.emit("checkout.session.async_payment_succeeded", session);
  } else {
    world.emit("invoice.payment_failed", invoice);
    world.emit("checkout.session.async_payment_failed", session);
  }
  return session;
}
