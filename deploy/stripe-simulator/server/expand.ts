import type Stripe from "stripe";
import { toSessionLines } from "../checkout/session-lines.ts";
import { invalid } from "../http/errors.ts";
import { type Json, type ON_REQUEST, toJson } from "../http/json.ts";
import { toList } from "../http/routes.ts";
import type { State } from "../state/state.ts";
import type { World } from "../state/world.ts";

const MAX_LEVELS = 4;

type Reader = (world: World, object: Json) => unknown;

/** Returns the value of a member that is shown only on request. */
const READERS: { [Kind in keyof typeof ON_REQUEST]: Record<(typeof ON_REQUEST)[Kind][number], Reader> } = {
  coupon: { applies_to: ({ state }, { id }) => state.coupons.get(id as string)?.applies_to },
  customer: {
    subscriptions: ({ state }, { id }) =>
      toList(
        [...state.subscriptions.values()].filter(
          ({ customer, status }) => customer === id && status !== "canceled",
        ),
        `/v1/subscriptions?customer=${id}`,
      ),
  },
  invoice: { payments: ({ state }, { id }) => toInvoicePayments(state, id as string) },
  "checkout.session": {
    line_items: (world, { id }) =>
      toList(toSessionLines(world, id as string), `/v1/checkout/sessions/${id}/line_items`),
  },
};

function toInvoicePayments(state: State, invoice: string): Stripe.ApiList<Stripe.InvoicePayment> {
  const payments = [...state.invoicePayments.values()].filter((payment) => payment.invoice === invoice);
  return toList(payments.toReversed(), "/v1/invoice_payments");
}

/** Returns an object as JSON with `paths` expanded. Members shown only on request are left out unless a path names them. */
export function render(world: World, object: object, paths: string[] = []): Json {
  const shown = toJson(object);
  for (const path of paths) {
    const levels = path.split(".");
    if (levels.length > MAX_LEVELS)
      throw invalid(
        `You cannot expand more than ${MAX_LEVELS} levels of a property. Property: ${path}`,
        "expand",
      );
    expandAt(world, [shown], levels, path);
  }
  return shown;
}

function expandAt(world: World, objects: Json[], [name, ...rest]: string[], path: string): void {
  if (name === undefined) return;
  for (const object of objects) {
    const readers: Record<string, Reader> | undefined = READERS[object.object as keyof typeof READERS];
    const read = readers?.[name];
    const shown = object[name] ?? undefined;
    const value = shown ?? read?.(world, object);
    if (!(name in object) && !read) throw invalid(`This property cannot be expanded (${path}).`, "expand");
    if (value === undefined || value === null) continue;
    const toMember = (item: unknown) => toExpanded(world, item, shown !== undefined);
    const expanded = Array.isArray(value) ? value.map(toMember) : toMember(value);
    object[name] = expanded;
    const next = [expanded].flat().filter((item): item is Json => typeof item === "object" && item !== null);
    expandAt(world, next, rest, path);
  }
}

/** Returns a member, or what has its id. One that is shown already is JSON. */
function toExpanded(world: World, value: unknown, isShown: boolean): unknown {
  if (typeof value === "object" && value !== null) return isShown ? value : toJson(value);
  if (typeof value !== "string") return value;
  const found = findObject(world.state, value);
  return found ? toJson(found) : value;
}

/** Returns the object with an id, whatever its kind. */
function findObject(state: State, id: string): object | undefined {
  const { customers, products, prices, coupons, promotionCodes, discounts, paymentMethods, meters } = state;
  const { subscriptions, schedules, invoices, refunds, creditNotes, portalConfigurations, deleted } = state;
  const { paymentIntents } = state;
  const tables: Map<string, object>[] = [
    customers,
    products,
    prices,
    coupons,
    promotionCodes,
    discounts,
    paymentMethods,
    meters,
    subscriptions,
    schedules,
    invoices,
    refunds,
    creditNotes,
    portalConfigurations,
    deleted,
    paymentIntents,
  ];
  for (const table of tables) if (table.has(id)) return table.get(id);
  return undefined;
}
