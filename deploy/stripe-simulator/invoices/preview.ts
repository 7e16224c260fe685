import type Stripe from "stripe";
import { object, text } from "../http/params.ts";
import { type Route, route } from "../http/routes.ts";
import { idOf, need, type World } from "../state/world.ts";
import { addIntervals } from "../subscriptions/periods.ts";
import { toDraft } from "./draft.ts";
import { toPendingLines } from "./invoice-items.ts";
import { isMetered, toItemLine } from "./lines.ts";

/** The next invoice of a subscription as it would be now. */
export function previewRoutes(world: World): Route[] {
  return [
    route(
      "POST",
      "/v1/invoices/create_preview",
      object<Stripe.InvoiceCreatePreviewParams>({ customer: text, subscription: text }, "subscription"),
      ({ subscription: id }) =>
        toPreview(world, need(world.state.subscriptions, "subscription", id!, "subscription")),
    ),
  ];
}

function toPreview(world: World, subscription: Stripe.Subscription): Stripe.Invoice {
  const customer = idOf(subscription.customer);
  const end = Math.min(...subscription.items.data.map((item) => item.current_period_end));
  const due = subscription.items.data.filter((item) => item.current_period_end === end);
  const lines = due.map((item) => {
    const past = { start: item.current_period_start, end };
    const next = { start: end, end: addIntervals(end, item.price.recurring!, 1) };
    return toItemLine(world, item, isMetered(item.price) ? past : next);
  });
  return toDraft(world, {
    customer,
    subscription,
    reason: "upcoming",
    lines: [...toPendingLines(world, customer, subscription.id), ...lines],
    period: { start: due[0]!.current_period_start, end },
    autoAdvance: true,
  });
}
