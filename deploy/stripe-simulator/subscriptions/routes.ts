import type Stripe from "stripe";
import type { DiscountRequest } from "../catalog/promotion-codes.ts";
import { invalid, missing } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import { clearable, either, flag, list, map, natural, object, oneOf, range, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import type { World } from "../state/world.ts";
import { cancelNow } from "./cancel.ts";
import { createSubscription } from "./create.ts";
import { clearDiscounts } from "./discounts.ts";
import { updateSubscription } from "./update.ts";

export const discountField = object<DiscountRequest>({ coupon: text, discount: text, promotion_code: text });
export const prorationBehavior = oneOf("always_invoice", "create_prorations", "none");

const ENDED = ["canceled", "incomplete_expired"];
const STATUSES = [
  "active",
  "all",
  "canceled",
  "ended",
  "incomplete",
  "incomplete_expired",
  "past_due",
  "paused",
  "trialing",
  "unpaid",
] as const;

const cancellationDetails = object<Stripe.SubscriptionCancelParams.CancellationDetails>({
  comment: clearable(text),
  feedback: clearable(text),
});

const CREATE = object<Stripe.SubscriptionCreateParams>(
  {
    customer: text,
    items: list(
      object<Stripe.SubscriptionCreateParams.Item>(
        { price: text, quantity: natural, metadata: map },
        "price",
      ),
    ),
    billing_mode: object<Stripe.SubscriptionCreateParams.BillingMode>(
      { type: oneOf("classic", "flexible") },
      "type",
    ),
    collection_method: oneOf("charge_automatically"),
    default_payment_method: text,
    description: text,
    discounts: clearable(list(discountField)),
    metadata: clearable(map),
    off_session: flag,
    payment_behavior: oneOf("allow_incomplete", "default_incomplete", "error_if_incomplete"),
    proration_behavior: prorationBehavior,
  },
  "customer",
  "items",
);

const UPDATE = object<Stripe.SubscriptionUpdateParams>({
  cancel_at: clearable(either(oneOf("max_period_end", "min_period_end"), natural)),
  cancel_at_period_end: flag,
  cancellation_details: cancellationDetails,
  default_payment_method: text,
  description: clearable(text),
  discounts: clearable(list(discountField)),
  items: list(
    object<Stripe.SubscriptionUpdateParams.Item>({
      id: text,
      price: text,
      quantity: natural,
      deleted: flag,
      metadata: clearable(map),
    }),
  ),
  metadata: clearable(map),
  off_session: flag,
  payment_behavior: oneOf("allow_incomplete", "error_if_incomplete"),
  proration_behavior: prorationBehavior,
  proration_date: natural,
});

/** Subscriptions. */
export function subscriptionRoutes(world: World): Route[] {
  const { subscriptions } = world.state;
  const needLive = (id: string) => {
    const subscription = need(subscriptions, "subscription", id);
    // As at Stripe: a subscription that has ended is not found by requests that would change it.
    if (ENDED.includes(subscription.status)) throw missing("subscription", id);
    return subscription;
  };
  return [
    route("POST", "/v1/subscriptions", CREATE, (params) => createSubscription(world, params)),
    route("GET", "/v1/subscriptions/:id", object({}), (_, id) => need(subscriptions, "subscription", id!)),
    route("POST", "/v1/subscriptions/:id", UPDATE, (params, id) => {
      const subscription = need(subscriptions, "subscription", id!);
      const { cancellation_details: __, metadata: ___, ...rest } = params;
      if (ENDED.includes(subscription.status) && Object.keys(rest).length > 0)
        throw invalid("A canceled subscription can only update its cancellation_details and metadata.", "id");
      return updateSubscription(world, subscription, params);
    }),
    route(
      "DELETE",
      "/v1/subscriptions/:id",
      object<Stripe.SubscriptionCancelParams>({
        cancellation_details: cancellationDetails,
        invoice_now: flag,
        prorate: flag,
      }),
      (params, id) => cancelNow(world, needLive(id!), params),
    ),
    route("DELETE", "/v1/subscriptions/:id/discount", object({}), (_, id) => {
      const subscription = needLive(id!);
      const gone = clearDiscounts(world, subscription);
      if (!gone) throw missing("discount", id!);
      const { end: __, ...rest } = gone;
      world.emit("customer.subscription.updated", subscription);
      return { ...rest, deleted: true } satisfies Stripe.DeletedDiscount;
    }),
    listRoute(
      "/v1/subscriptions",
      object<Stripe.SubscriptionListParams>({
        customer: text,
        price: text,
        status: oneOf(...STATUSES),
        created: range,
      }),
      ({ price, status, ...filter }) => {
        const { customer } = filter;
        if (customer !== undefined) needCustomer(world.state, customer);
        return select(subscriptions.values(), filter).filter(
          (subscription) =>
            (price === undefined || subscription.items.data.some((item) => item.price.id === price)) &&
            isListed(subscription.status, status),
        );
      },
    ),
  ];
}

/** As at Stripe: without a status, all that are not canceled are listed. */
function isListed(status: string, wanted: Stripe.SubscriptionListParams.Status | undefined): boolean {
  if (wanted === undefined) return status !== "canceled";
  if (wanted === "all") return true;
  return wanted === "ended" ? ENDED.includes(status) : status === wanted;
}
