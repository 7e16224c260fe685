import type Stripe from "stripe";
import { addIntervals, periodAt } from "../catalog/periods.ts";
import { isMetered } from "../catalog/prices.ts";
import { type DiscountSource, toDiscountSources } from "../catalog/promotion-codes.ts";
import { invalid, missing } from "../http/errors.ts";
import { SHOWN_LINES } from "../http/json.ts";
import { need, needCustomer } from "../http/lookup.ts";
import { clearable, flag, list, natural, object, oneOf, text } from "../http/params.ts";
import { type Route, route } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";
import { toDraft } from "./draft.ts";
import { toFinalLines } from "./final-lines.ts";
import { toPendingLines } from "./invoice-items.ts";
import { toItemLine } from "./lines.ts";
import { toProration } from "./prorate.ts";
import { requireLocation } from "./taxes.ts";
import { computeTotals } from "./totals.ts";

type Details = Stripe.InvoiceCreatePreviewParams.SubscriptionDetails;

const PARAMS = object<Stripe.InvoiceCreatePreviewParams>({
  automatic_tax: object<Stripe.InvoiceCreatePreviewParams.AutomaticTax>({ enabled: flag }, "enabled"),
  customer: text,
  discounts: clearable(
    list(object<Stripe.InvoiceCreatePreviewParams.Discount>({ coupon: text, promotion_code: text })),
  ),
  subscription: text,
  subscription_details: object<Details>({
    cancel_at_period_end: flag,
    cancel_now: flag,
    items: list(
      object<Stripe.InvoiceCreatePreviewParams.SubscriptionDetails.Item>(
        { id: text, price: text, quantity: natural },
        "price",
      ),
    ),
    proration_behavior: oneOf("always_invoice", "none"),
    proration_date: natural,
  }),
});

/**
 * Invoices as they would be: the next one of a subscription, its last one, that of a change of its items, or the first one of
 * a new subscription.
 */
export function previewRoutes(world: World): Route[] {
  return [
    route("POST", "/v1/invoices/create_preview", PARAMS, (params) => {
      const invoice = toPreview(world, params);
      invoice.id = newId("upcoming_in");
      if (invoice.lines.data.length > SHOWN_LINES) world.state.previews.set(invoice.id, invoice);
      return invoice;
    }),
  ];
}

function toPreview(world: World, params: Stripe.InvoiceCreatePreviewParams): Stripe.Invoice {
  const { customer, subscription: id, discounts, subscription_details: details = {} } = params;
  const tax = params.automatic_tax?.enabled ?? false;
  if (tax) requireLocation(world, customer ?? "");
  if (id === undefined && details.items) return toFirst(world, customer, details.items, discounts || [], tax);
  const subscription = need(world.state.subscriptions, "subscription", id ?? "", "subscription");
  if (details.items) return previewChange(world, subscription, details.items, details.proration_date);
  return details.cancel_now ? toFinal(world, subscription) : toNext(world, subscription, details);
}

/** Returns the invoice of the end of the current period; without the next period when the subscription ends then. */
function toNext(world: World, subscription: Stripe.Subscription, details: Details): Stripe.Invoice {
  const customer = idOf(subscription.customer);
  const isEnding = details.cancel_at_period_end ?? subscription.cancel_at_period_end;
  const end = Math.min(...subscription.items.data.map((item) => item.current_period_end));
  const due = subscription.items.data.filter((item) => item.current_period_end === end);
  const billed = isEnding ? due.filter(({ price }) => isMetered(price)) : due;
  const lines = billed.map((item) => {
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

type ChangedItem = { id?: string; price?: string; quantity?: number };

/** Returns the invoice of a change of items that is invoiced at once, from a time on. */
export function previewChange(
  world: World,
  subscription: Stripe.Subscription,
  changes: ChangedItem[],
  at = world.clock.now(),
): Stripe.Invoice {
  const customer = idOf(subscription.customer);
  const prorations = changes.flatMap((change) => toProrations(world, subscription, change, at));
  return toDraft(world, {
    customer,
    subscription,
    reason: "upcoming",
    lines: [...toPendingLines(world, customer, subscription.id), ...prorations],
    period: { start: world.clock.now(), end: world.clock.now() },
    autoAdvance: true,
  });
}

/** Returns the credit and the charge of the change of an item; the charge of one that is added. */
function toProrations(world: World, subscription: Stripe.Subscription, change: ChangedItem, at: number) {
  const old = subscription.items.data.find(({ id }) => id === change.id);
  if (change.id !== undefined && !old) throw missing("subscription_item", change.id);
  const price = change.price
    ? need(world.state.prices, "price", change.price, "subscription_details[items]")
    : old!.price;
  const quantity = change.quantity ?? old?.quantity ?? 1;
  if (old?.price.id === price.id && old.quantity === quantity) return [];
  const added = {
    ...periodAt(subscription.billing_cycle_anchor, price.recurring!, world.clock.now()),
    ...{ discounts: [], subscription: subscription.id },
  };
  const item =
    old ??
    ({ ...added, current_period_start: added.start, current_period_end: added.end } as unknown as NonNullable<
      typeof old
    >);
  const credit = old && toProration(world, old, { price: old.price, quantity: old.quantity ?? 1 }, -1, at);
  const charge = toProration(world, item, { price, quantity }, 1, at);
  return [credit, charge].filter((line) => line !== undefined);
}

function toFinal(world: World, subscription: Stripe.Subscription): Stripe.Invoice {
  const lines = toFinalLines(world, subscription);
  if (lines.length === 0)
    throw invalid("Nothing to invoice for subscription", "subscription", "invoice_upcoming_none");
  const now = world.clock.now();
  const period = { start: Math.min(...lines.map((line) => line.period.start)), end: now };
  const customer = idOf(subscription.customer);
  return toDraft(world, { customer, subscription, reason: "upcoming", lines, period, autoAdvance: true });
}

/** Returns the first invoice of a subscription to some prices. */
function toFirst(
  world: World,
  customerId: string | undefined,
  items: NonNullable<Details["items"]>,
  discounts: Stripe.InvoiceCreatePreviewParams.Discount[],
  automaticTax: boolean,
): Stripe.Invoice {
  const now = world.clock.now();
  const customer = customerId === undefined ? nobody(now) : needCustomer(world.state, customerId);
  world.state.customers.set(customer.id, customer);
  const lines = items.map(({ price: id = "", quantity = 1 }) => {
    const price = need(world.state.prices, "price", id, "subscription_details[items]");
    const item = { price, quantity, discounts: [], metadata: {} } as unknown as Stripe.SubscriptionItem;
    return { ...toItemLine(world, item, periodAt(now, price.recurring!, now)), subscription: null };
  });
  const invoice = toDraft(world, {
    customer: customer.id,
    subscription: undefined,
    reason: "upcoming",
    lines: [...toPendingLines(world, customer.id, null), ...lines],
    period: { start: now, end: now },
    autoAdvance: true,
    automaticTax,
  });
  const amount = lines.reduce((sum, line) => sum + line.amount, 0);
  discount(world, invoice, toDiscountSources(world, discounts, customer.id, amount));
  if (customerId === undefined) world.state.customers.delete(customer.id);
  return invoice;
}

/** Returns a customer who is not known yet. */
function nobody(created: number): Stripe.Customer {
  return { id: newId("cus"), object: "customer", balance: 0, created, email: null } as Stripe.Customer;
}

/** Takes discounts off an invoice; they redeem nothing. */
function discount(world: World, invoice: Stripe.Invoice, sources: DiscountSource[]): void {
  const ids = sources.map(({ coupon }) => {
    const id = newId("di");
    const source = { coupon, type: "coupon" };
    world.state.discounts.set(id, { id, object: "discount", source } as Stripe.Discount);
    return id;
  });
  invoice.discounts = ids;
  computeTotals(world, invoice);
  for (const id of ids) world.state.discounts.delete(id);
}
