import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import {
  address,
  clearable,
  flag,
  integer,
  list,
  map,
  mergeMetadata,
  natural,
  object,
  range,
  text,
} from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";
import { toMatcher } from "./search.ts";

const invoiceSettings = object<Stripe.CustomerUpdateParams.InvoiceSettings>({
  default_payment_method: text,
  footer: text,
});

const shared = {
  address: clearable(address),
  balance: integer,
  description: text,
  email: text,
  invoice_settings: invoiceSettings,
  metadata: clearable(map),
  name: text,
  phone: text,
  preferred_locales: list(text),
  validate: flag,
};

/** Customers; `onDelete` ends the subscriptions of a customer who is deleted. */
export function customerRoutes(world: World, onDelete: (customer: string) => void): Route[] {
  const { customers, deleted } = world.state;
  return [
    route("POST", "/v1/customers", object<Stripe.CustomerCreateParams>(shared), (params) =>
      createCustomer(world, params),
    ),
    route(
      "GET",
      "/v1/customers/search",
      object<Stripe.CustomerSearchParams>({ query: text, limit: natural, page: text }, "query"),
      ({ query, limit = 10 }) => {
        const found = [...customers.values()].filter(toMatcher(query)).toReversed();
        return {
          object: "search_result",
          data: found.slice(0, limit),
          has_more: found.length > limit,
          next_page: null,
          url: "/v1/customers/search",
        };
      },
    ),
    route(
      "GET",
      "/v1/customers/:id",
      object({}),
      (_, id) => deleted.get(id!) ?? need(customers, "customer", id!),
    ),
    route("POST", "/v1/customers/:id", object<Stripe.CustomerUpdateParams>(shared), (params, id) =>
      updateCustomer(world, needCustomer(world.state, id, "id"), params),
    ),
    route("DELETE", "/v1/customers/:id", object({}), (_, id) => {
      const customer = needCustomer(world.state, id, "id");
      onDelete(customer.id);
      customers.delete(customer.id);
      const tombstone = {
        id: customer.id,
        object: "customer",
        deleted: true,
      } satisfies Stripe.DeletedCustomer;
      deleted.set(customer.id, tombstone);
      world.emit("customer.deleted", customer);
      return tombstone;
    }),
    listRoute("/v1/customers", object<Stripe.CustomerListParams>({ created: range, email: text }), (filter) =>
      select(customers.values(), filter),
    ),
  ];
}

function createCustomer(world: World, params: Stripe.CustomerCreateParams): Stripe.Customer {
  const { state, clock } = world;
  const customer = {
    id: newId("cus", 14),
    object: "customer",
    address: null,
    balance: params.balance ?? 0,
    created: clock.now(),
    currency: null,
    default_source: null,
    delinquent: false,
    description: params.description ?? null,
    email: params.email ?? null,
    invoice_prefix: newId("", 8).slice(1).toUpperCase(),
    invoice_settings: {
      custom_fields: null,
      default_payment_method: null,
      footer: params.invoice_settings?.footer ?? null,
      rendering_options: null,
    },
    livemode: false,
    metadata: mergeMetadata({}, params.metadata),
    name: params.name ?? null,
    next_invoice_sequence: 1,
    phone: params.phone ?? null,
    preferred_locales: params.preferred_locales ?? [],
    shipping: null,
    tax_exempt: "none",
    test_clock: null,
  } satisfies Stripe.Customer;
  setAddress(customer, params.address);
  setDefaultMethod(world, customer, params.invoice_settings?.default_payment_method);
  state.customers.set(customer.id, customer);
  world.emit("customer.created", customer);
  return customer;
}

/** Changes a customer. */
export function updateCustomer(
  world: World,
  customer: Stripe.Customer,
  params: Stripe.CustomerUpdateParams,
): Stripe.Customer {
  const { address: newAddress, invoice_settings, metadata, validate: _, ...change } = params;
  setDefaultMethod(world, customer, invoice_settings?.default_payment_method);
  if (invoice_settings?.footer !== undefined) customer.invoice_settings.footer = invoice_settings.footer;
  setAddress(customer, newAddress);
  for (const [name, value] of Object.entries(change))
    Object.assign(customer, { [name]: value === "" ? null : value });
  customer.metadata = mergeMetadata(customer.metadata, metadata);
  world.emit("customer.updated", customer);
  return customer;
}

function setAddress(customer: Stripe.Customer, given: Stripe.CustomerCreateParams["address"]): void {
  if (given === undefined) return;
  const empty = { city: null, country: null, line1: null, line2: null, postal_code: null, state: null };
  customer.address = given === "" ? null : ({ ...empty, ...given } as Stripe.Address);
}

function setDefaultMethod({ state }: World, customer: Stripe.Customer, id: string | undefined): void {
  if (id === undefined) return;
  const param = "invoice_settings[default_payment_method]";
  const method = need(state.paymentMethods, "PaymentMethod", id, param);
  if (method.customer !== customer.id)
    throw invalid("The customer does not have this payment method: attach it first.", param);
  customer.invoice_settings.default_payment_method = id;
}
