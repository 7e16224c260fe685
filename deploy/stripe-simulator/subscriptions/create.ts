import type Stripe from "stripe";
import { toDiscountSources } from "../catalog/promotion-codes.ts";
import { declined, invalid } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import { mergeMetadata } from "../http/params.ts";
import { idOf, type World } from "../state/world.ts";
import { buildSubscription } from "./build.ts";
import { addDiscount } from "./discounts.ts";
import { startSubscription } from "./start.ts";

/** Adds a subscription and charges its first invoice. */
export function createSubscription(
  world: World,
  params: Stripe.SubscriptionCreateParams,
): Stripe.Subscription {
  const { state } = world;
  const customer = needCustomer(state, params.customer);
  const { default_payment_method: ownMethod, payment_behavior } = params;
  if (ownMethod !== undefined)
    need(state.paymentMethods, "PaymentMethod", ownMethod, "default_payment_method");
  const method = ownMethod ?? customer.invoice_settings.default_payment_method;
  if (!method)
    throw invalid(
      "This customer has no attached payment source or default payment method.",
      "default_payment_method",
      "resource_missing",
    );
  if (payment_behavior === "error_if_incomplete" && state.cardOutcomes.get(idOf(method)) !== "succeeds")
    throw declined("generic_decline");
  const sources = toDiscountSources(world, params.discounts || [], customer.id);
  const subscription = buildSubscription(world, {
    customer: customer.id,
    items: (params.items ?? []).map(({ price, quantity, metadata }) => ({
      price: price!,
      quantity,
      metadata: mergeMetadata({}, metadata),
    })),
    billingMode: params.billing_mode?.type === "classic" ? "classic" : "flexible",
    defaultPaymentMethod: ownMethod ?? null,
    metadata: mergeMetadata({}, params.metadata),
    description: params.description ?? null,
  });
  subscription.discounts = sources.map((source) => addDiscount(world, subscription, source));
  startSubscription(world, subscription, payment_behavior === "default_incomplete" ? "later" : "as_any");
  return subscription;
}
