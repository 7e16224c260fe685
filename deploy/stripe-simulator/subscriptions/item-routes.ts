import type Stripe from "stripe";
import { toDiscountSources } from "../catalog/promotion-codes.ts";
import { need } from "../http/lookup.ts";
import { clearable, flag, list, map, mergeMetadata, natural, object, oneOf, text } from "../http/params.ts";
import { listRoute, type Route, route } from "../http/routes.ts";
import { idOf, type World } from "../state/world.ts";
import { addDiscount } from "./discounts.ts";
import { addItem, changeItem, invoiceProrations, needItem, removeItem } from "./items.ts";
import { discountField, prorationBehavior } from "./routes.ts";

const paymentBehavior = oneOf("allow_incomplete", "error_if_incomplete");

/** Items of subscriptions. */
export function subscriptionItemRoutes(world: World): Route[] {
  const { subscriptions } = world.state;
  const updated = (subscription: Stripe.Subscription, behavior: string) => {
    if (behavior === "always_invoice") invoiceProrations(world, subscription);
    world.emit("customer.subscription.updated", subscription);
  };
  return [
    route(
      "POST",
      "/v1/subscription_items",
      object<Stripe.SubscriptionItemCreateParams>(
        {
          subscription: text,
          price: text,
          quantity: natural,
          metadata: map,
          payment_behavior: paymentBehavior,
          proration_behavior: prorationBehavior,
        },
        "subscription",
        "price",
      ),
      ({
        subscription: id,
        price,
        quantity,
        metadata,
        proration_behavior: behavior = "create_prorations",
      }) => {
        const subscription = need(subscriptions, "subscription", id, "subscription");
        if (subscription.status === "canceled") need(new Map(), "subscription", id, "subscription");
        const request = { price: price!, quantity, metadata: mergeMetadata({}, metadata) };
        const item = addItem(world, subscription, request, { behavior });
        updated(subscription, behavior);
        return item;
      },
    ),
    route("GET", "/v1/subscription_items/:id", object({}), (_, id) => needItem(world, id!).item),
    route(
      "POST",
      "/v1/subscription_items/:id",
      object<Stripe.SubscriptionItemUpdateParams>({
        price: text,
        quantity: natural,
        metadata: clearable(map),
        discounts: clearable(list(discountField)),
        off_session: flag,
        payment_behavior: paymentBehavior,
        proration_behavior: prorationBehavior,
      }),
      ({ price, quantity, metadata, discounts, proration_behavior: behavior = "create_prorations" }, id) => {
        const { subscription, item } = needItem(world, id!);
        const sources = toDiscountSources(world, discounts || [], idOf(subscription.customer));
        if (price !== undefined || quantity !== undefined)
          changeItem(world, subscription, item, { price, quantity }, { behavior });
        if (discounts === "") item.discounts = [];
        if (sources.length > 0)
          item.discounts = sources.map((source) =>
            addDiscount(world, subscription, source, { item: item.id }),
          );
        item.metadata = mergeMetadata(item.metadata, metadata);
        updated(subscription, behavior);
        return item;
      },
    ),
    route(
      "DELETE",
      "/v1/subscription_items/:id",
      object<Stripe.SubscriptionItemDeleteParams>({
        clear_usage: flag,
        proration_behavior: prorationBehavior,
      }),
      ({ proration_behavior: behavior = "create_prorations" }, id) => {
        const { subscription, item } = needItem(world, id!);
        removeItem(world, subscription, item, { behavior });
        updated(subscription, behavior);
        return {
          id: item.id,
          object: "subscription_item",
          deleted: true,
        } satisfies Stripe.DeletedSubscriptionItem;
      },
    ),
    listRoute(
      "/v1/subscription_items",
      object<Stripe.SubscriptionItemListParams>({ subscription: text }, "subscription"),
      ({ subscription }) =>
        need(subscriptions, "subscription", subscription, "subscription").items.data.toReversed(),
    ),
  ];
}
