import Stripe from "stripe";
import type { Period } from "../catalog/periods.ts";
import { amountOf, isMetered, productOf } from "../catalog/prices.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";

/** The content of an invoice line. */
export type LineInput = {
  description: string;
  price: Stripe.Price | undefined;
  quantity: number;
  amount: number;
  period: Period;
  discountable?: boolean;
  discounts?: string[];
  proration?: boolean;
  subscription?: string | null;
  item?: string | undefined;
  invoiceItem?: string | null;
  metadata?: Stripe.Metadata;
};

/** Returns the line of a subscription item for a period; `computeTotals` fills in the usage of a metered one. */
export function toItemLine(world: World, item: Stripe.SubscriptionItem, period: Period): LineInput {
  const { price } = item;
  const name = world.state.products.get(productOf(price))?.name ?? "Subscription";
  const quantity = isMetered(price) ? 0 : (item.quantity ?? 1);
  return {
    description: isMetered(price) ? name : `${quantity} × ${name}`,
    price,
    quantity,
    amount: amountOf(price, quantity),
    period,
    discounts: item.discounts.map(String),
    subscription: item.subscription,
    item: item.id,
    metadata: item.metadata,
  };
}

/** Returns a line of an invoice. */
export function toLine(invoice: string, input: LineInput): Stripe.InvoiceLineItem {
  const { price, amount, quantity, subscription = null, item, invoiceItem = null, proration = false } = input;
  return {
    id: newId("il"),
    object: "line_item",
    amount,
    currency: "usd",
    description: input.description,
    discount_amounts: [],
    discountable: input.discountable ?? true,
    discounts: input.discounts ?? [],
    invoice,
    livemode: false,
    metadata: input.metadata ?? {},
    parent: toParent({ item, invoiceItem, subscription, proration }),
    period: input.period,
    pretax_credit_amounts: [],
    pricing: {
      ...(price && { price_details: { price: price.id, product: productOf(price) } }),
      type: "price_details",
      unit_amount_decimal: price?.unit_amount_decimal ?? Stripe.Decimal.from(amount),
    },
    quantity,
    quantity_decimal: Stripe.Decimal.from(quantity),
    subscription,
    subtotal: amount,
    taxes: [],
  } satisfies Stripe.InvoiceLineItem;
}

type ParentInput = {
  item: string | undefined;
  invoiceItem: string | null;
  subscription: string | null;
  proration: boolean;
};

function toParent({
  item,
  invoiceItem,
  subscription,
  proration,
}: ParentInput): Stripe.InvoiceLineItem.Parent {
  const shared = { proration, proration_details: proration ? { credited_items: null } : null, subscription };
  return item === undefined
    ? {
        invoice_item_details: { invoice_item: invoiceItem ?? "", ...shared },
        subscription_item_details: null,
        type: "invoice_item_details",
      }
    : {
        invoice_item_details: null,
        subscription_item_details: { invoice_item: invoiceItem, subscription_item: item, ...shared },
        type: "subscription_item_details",
      };
}
