import Stripe from "stripe";
import { productOf } from "../catalog/prices.ts";
import { invalid } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import {
  clearable,
  decimal,
  flag,
  integer,
  isWithin,
  map,
  mergeMetadata,
  natural,
  object,
  oneOf,
  range,
  text,
} from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";
import { type LineInput, toLine } from "./lines.ts";
import { computeTotals } from "./totals.ts";

const period = object<{ start: number; end: number }>({ start: natural, end: natural }, "start", "end");

/** Invoice items: amounts that wait for the next invoice of a customer or a subscription. */
export function invoiceItemRoutes(world: World): Route[] {
  const { invoiceItems } = world.state;
  const needPending = (id: string) => {
    const item = need(invoiceItems, "invoiceitem", id);
    if (item.invoice !== null) throw invalid("This invoice item is attached to an invoice.", "id");
    return item;
  };
  return [
    route(
      "POST",
      "/v1/invoiceitems",
      object<Stripe.InvoiceItemCreateParams>(
        {
          customer: text,
          amount: integer,
          currency: text,
          description: text,
          discountable: flag,
          invoice: text,
          metadata: clearable(map),
          period,
          quantity: natural,
          subscription: text,
          tax_behavior: oneOf("exclusive", "inclusive", "unspecified"),
          unit_amount_decimal: decimal,
        },
        "customer",
      ),
      (params) => {
        const { quantity = 1, unit_amount_decimal: unit } = params;
        const amount =
          params.amount ?? Number(unit?.mul(Stripe.Decimal.from(quantity)).toFixed(0, "half-up"));
        if (Number.isNaN(amount)) throw invalid("You must provide amount.", "amount", "parameter_missing");
        if (params.subscription !== undefined)
          need(world.state.subscriptions, "subscription", params.subscription, "subscription");
        const draft = params.invoice === undefined ? undefined : needDraft(world, params.invoice);
        const item = addInvoiceItem(world, {
          customer: needCustomer(world.state, params.customer).id,
          subscription: params.subscription,
          line: {
            description: params.description ?? "",
            price: undefined,
            quantity,
            amount,
            period: params.period ?? { start: world.clock.now(), end: world.clock.now() },
            // As at Stripe: negative amounts are not discounted unless requested.
            discountable: params.discountable ?? amount >= 0,
            metadata: mergeMetadata({}, params.metadata),
          },
        });
        if (draft) addToDraft(world, draft, item);
        return item;
      },
    ),
    route("GET", "/v1/invoiceitems/:id", object({}), (_, id) => need(invoiceItems, "invoiceitem", id!)),
    route("DELETE", "/v1/invoiceitems/:id", object({}), (_, id) => {
      invoiceItems.delete(needPending(id!).id);
      return { id: id!, object: "invoiceitem", deleted: true } satisfies Stripe.DeletedInvoiceItem;
    }),
    listRoute(
      "/v1/invoiceitems",
      object<Stripe.InvoiceItemListParams>({ customer: text, created: range, invoice: text, pending: flag }),
      ({ created, pending, ...filter }) =>
        select(invoiceItems.values(), filter).filter(
          (item) =>
            isWithin(created, item.date) && (pending === undefined || (item.invoice === null) === pending),
        ),
    ),
  ];
}

type ItemInput = { customer: string; subscription: string | undefined; line: LineInput };

/** Adds an amount to the next invoice. */
export function addInvoiceItem(
  world: World,
  { customer, subscription, line }: ItemInput,
): Stripe.InvoiceItem {
  const { state, clock } = world;
  const item = {
    id: newId("ii"),
    object: "invoiceitem",
    amount: line.amount,
    currency: "usd",
    customer,
    customer_account: null,
    date: clock.now(),
    description: line.description,
    discountable: line.discountable ?? true,
    discounts: line.discounts ?? [],
    invoice: null,
    livemode: false,
    metadata: line.metadata ?? {},
    net_amount: line.amount,
    parent:
      subscription === undefined
        ? null
        : {
            subscription_details: {
              subscription,
              ...(line.item !== undefined && { subscription_item: line.item }),
            },
            type: "subscription_details",
          },
    period: line.period,
    pricing: {
      ...(line.price && { price_details: { price: line.price.id, product: productOf(line.price) } }),
      type: "price_details",
      unit_amount_decimal: line.price?.unit_amount_decimal ?? Stripe.Decimal.from(line.amount),
    },
    proration: line.proration ?? false,
    quantity: line.quantity,
    quantity_decimal: Stripe.Decimal.from(line.quantity),
    tax_rates: [],
    test_clock: null,
  } satisfies Stripe.InvoiceItem;
  state.invoiceItems.set(item.id, item);
  world.emit("invoiceitem.created", item);
  return item;
}

function needDraft({ state }: World, id: string): Stripe.Invoice {
  const invoice = need(state.invoices, "invoice", id, "invoice");
  if (invoice.status !== "draft")
    throw invalid("You can only add invoice items to a draft invoice.", "invoice", "invoice_not_editable");
  return invoice;
}

function addToDraft(world: World, invoice: Stripe.Invoice, item: Stripe.InvoiceItem): void {
  item.invoice = invoice.id!;
  invoice.lines.data.push(toLine(invoice.id!, toLineInput(world, item)));
  computeTotals(world, invoice);
  world.emit("invoice.updated", invoice);
}

/** Returns the lines of the pending items of this subscription, and of those of the customer that name none. */
export function toPendingLines(world: World, customer: string, subscription: string | null): LineInput[] {
  return [...world.state.invoiceItems.values()]
    .filter((item) => {
      const owner = item.parent?.subscription_details?.subscription ?? null;
      return (
        item.invoice === null && item.customer === customer && (owner === null || owner === subscription)
      );
    })
    .map((item) => toLineInput(world, item));
}

function toLineInput({ state }: World, item: Stripe.InvoiceItem): LineInput {
  return {
    description: item.description ?? "",
    price: state.prices.get(idOf(item.pricing?.price_details?.price ?? "")),
    quantity: item.quantity,
    amount: item.amount,
    period: item.period,
    discountable: item.discountable,
    discounts: item.discounts?.map(idOf) ?? [],
    proration: item.proration,
    subscription: item.parent?.subscription_details?.subscription ?? null,
    item: item.parent?.subscription_details?.subscription_item,
    invoiceItem: item.id,
    metadata: item.metadata ?? {},
  };
}
