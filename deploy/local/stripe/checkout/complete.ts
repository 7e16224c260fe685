import type Stripe from "stripe";
import { attach, createCard } from "../customers/payment-methods.ts";
import type { TestCard } from "../customers/test-cards.ts";
import { declined, invalid } from "../http/errors.ts";
import { mergeMetadata } from "../http/params.ts";
import { idOf, need, type World } from "../state/world.ts";
import { buildSubscription } from "../subscriptions/build.ts";
import { addDiscount } from "../subscriptions/discounts.ts";
import { startSubscription } from "../subscriptions/start.ts";

/** Pays an open session with a card and makes its subscription; throws card_declined, which leaves it open. */
export function completeSession(world: World, id: string, card: TestCard): Stripe.Checkout.Session {
  const { state } = world;
  const session = need(state.checkoutSessions, "checkout.session", id);
  if (session.status !== "open") throw invalid(`This Checkout Session is ${session.status}.`, "session");
  if (card.outcome === "declines") throw declined(card.decline);
  const order = state.orders.get(id)!;
  const customer = idOf(session.customer!);
  const method = attach(world, createCard(world, card), customer);
  method.billing_details.email = session.customer_details?.email ?? null;
  const subscription = buildSubscription(world, {
    customer,
    items: order.lines,
    billingMode: order.subscription.billing_mode?.type === "classic" ? "classic" : "flexible",
    defaultPaymentMethod: method.id,
    metadata: mergeMetadata({}, order.subscription.metadata),
    description: order.subscription.description ?? null,
  });
  if (order.discount)
    subscription.discounts = [addDiscount(world, subscription, order.discount, { session: id })];
  startSubscription(world, subscription, true);
  const invoice = state.invoices.get(idOf(subscription.latest_invoice!))!;
  Object.assign(session, {
    status: "complete",
    payment_status: invoice.amount_paid > 0 ? "paid" : "no_payment_required",
    subscription: subscription.id,
    invoice: invoice.id,
    url: null,
  } satisfies Partial<Stripe.Checkout.Session>);
  world.emit("checkout.session.completed", session);
  return session;
}
