import type Stripe from "stripe";
import { invalid, missing } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import { address, clearable, map, mergeMetadata, object, oneOf, text } from "../http/params.ts";
import { listRoute, type Route, route } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";
import { findCardByName, type TestCard } from "./test-cards.ts";

const billingDetails = object<Stripe.PaymentMethodCreateParams.BillingDetails>({
  address: clearable(address),
  email: clearable(text),
  name: clearable(text),
  phone: clearable(text),
});

/** Payment methods: cards, named by Stripe's names of its test cards. Card numbers are never stored. */
export function paymentMethodRoutes(world: World): Route[] {
  const { paymentMethods, customers } = world.state;
  const type = oneOf("card");
  const cardsOf = (customer: string) =>
    [...paymentMethods.values()].filter((method) => method.customer === customer);
  return [
    route(
      "POST",
      "/v1/payment_methods",
      object<Stripe.PaymentMethodCreateParams>(
        {
          type,
          card: object<{ token: string }>({ token: text }, "token"),
          billing_details: billingDetails,
          metadata: map,
        },
        "type",
        "card",
      ),
      ({ card, metadata }) => {
        const { token } = card as { token: string };
        const found = findCardByName(token);
        if (!found) throw missing("token", token, "card[token]");
        const method = createCard(world, found);
        method.metadata = mergeMetadata({}, metadata);
        return method;
      },
    ),
    route("GET", "/v1/payment_methods/:id", object({}), (_, id) =>
      need(paymentMethods, "PaymentMethod", id!),
    ),
    route(
      "POST",
      "/v1/payment_methods/:id/attach",
      object<Stripe.PaymentMethodAttachParams>({ customer: text }, "customer"),
      ({ customer }, id) => {
        const owner = needCustomer(world.state, customer);
        const known = findCardByName(id!);
        const method = known ? createCard(world, known) : need(paymentMethods, "PaymentMethod", id!);
        return attach(world, method, owner.id);
      },
    ),
    route("POST", "/v1/payment_methods/:id/detach", object({}), (_, id) => {
      const method = need(paymentMethods, "PaymentMethod", id!);
      if (method.customer === null) throw invalid("The payment method is not attached to a customer.", "id");
      const owner = customers.get(String(method.customer));
      if (owner?.invoice_settings.default_payment_method === id)
        owner!.invoice_settings.default_payment_method = null;
      method.customer = null;
      world.emit("payment_method.detached", method);
      return method;
    }),
    listRoute(
      "/v1/payment_methods",
      object<Stripe.PaymentMethodListParams>({ customer: text, type }),
      ({ customer }) => cardsOf(needCustomer(world.state, customer).id),
    ),
    listRoute("/v1/customers/:id/payment_methods", object<{ type?: string }>({ type }), (_, id) =>
      cardsOf(needCustomer(world.state, id, "id").id),
    ),
  ];
}

/** Adds the payment method of a test card, attached to no customer yet. */
export function createCard(world: World, { number, brand, outcome }: TestCard): Stripe.PaymentMethod {
  const { state, clock } = world;
  const method = {
    id: newId("pm"),
    object: "payment_method",
    allow_redisplay: "unspecified",
    billing_details: { address: null, email: null, name: null, phone: null, tax_id: null },
    card: {
      brand,
      checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: "pass" },
      country: "US",
      display_brand: brand,
      exp_month: 12,
      exp_year: new Date(clock.now() * 1000).getUTCFullYear() + 4,
      funding: "credit",
      generated_from: null,
      last4: number.slice(-4),
      networks: { available: [brand], preferred: null },
      regulated_status: "unregulated",
      three_d_secure_usage: { supported: true },
      wallet: null,
    },
    created: clock.now(),
    customer: null,
    customer_account: null,
    livemode: false,
    metadata: {},
    type: "card",
  } satisfies Stripe.PaymentMethod;
  state.paymentMethods.set(method.id, method);
  state.cardOutcomes.set(method.id, outcome);
  return method;
}

/** Attaches a payment method to a customer. */
export function attach(world: World, method: Stripe.PaymentMethod, customer: string): Stripe.PaymentMethod {
  if (method.customer !== null && method.customer !== customer)
    throw invalid("The payment method you provided has already been attached to a customer.", "id");
  method.customer = customer;
  world.emit("payment_method.attached", method);
  return method;
}
