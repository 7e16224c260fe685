import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import { clearable, flag, list, map, natural, object, oneOf, range, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import type { World } from "../state/world.ts";
import { createSession } from "./create.ts";
import { toSessionLines } from "./session-lines.ts";

type Params = Stripe.Checkout.SessionCreateParams;

const CREATE = object<Params>(
  {
    mode: oneOf("subscription"),
    ui_mode: oneOf("hosted_page"),
    automatic_tax: object<Stripe.Checkout.SessionCreateParams.AutomaticTax>({ enabled: flag }, "enabled"),
    tax_id_collection: object<Stripe.Checkout.SessionCreateParams.TaxIdCollection>(
      { enabled: flag },
      "enabled",
    ),
    customer: text,
    customer_update: object<Stripe.Checkout.SessionCreateParams.CustomerUpdate>({
      address: oneOf("auto", "never"),
      name: oneOf("auto", "never"),
    }),
    billing_address_collection: oneOf("auto", "required"),
    client_reference_id: text,
    success_url: text,
    cancel_url: text,
    line_items: list(
      object<Stripe.Checkout.SessionCreateParams.LineItem>({ price: text, quantity: natural }, "price"),
    ),
    discounts: clearable(
      list(object<Stripe.Checkout.SessionCreateParams.Discount>({ coupon: text, promotion_code: text }), 1),
    ),
    subscription_data: object<Stripe.Checkout.SessionCreateParams.SubscriptionData>({
      billing_mode: object<Stripe.Checkout.SessionCreateParams.SubscriptionData.BillingMode>(
        { type: oneOf("classic", "flexible") },
        "type",
      ),
      description: text,
      metadata: map,
    }),
    expires_at: natural,
    locale: oneOf("auto", "en"),
    metadata: clearable(map),
  },
  "mode",
  "customer",
  "success_url",
);

/** Checkout sessions, which are paid on their page. */
export function checkoutRoutes(world: World): Route[] {
  const { checkoutSessions } = world.state;
  const needSession = (id: string) => need(checkoutSessions, "checkout.session", id);
  return [
    route("POST", "/v1/checkout/sessions", CREATE, (params) => createSession(world, params)),
    route("GET", "/v1/checkout/sessions/:id", object({}), (_, id) => needSession(id!)),
    listRoute(
      "/v1/checkout/sessions",
      object<Stripe.Checkout.SessionListParams>({
        created: range,
        customer: text,
        status: oneOf("complete", "expired", "open"),
        subscription: text,
      }),
      (filter) => select(checkoutSessions.values(), filter),
    ),
    listRoute("/v1/checkout/sessions/:id/line_items", object({}), (_, id) =>
      toSessionLines(world, needSession(id!).id).toReversed(),
    ),
    route("POST", "/v1/checkout/sessions/:id/expire", object({}), (_, id) => expire(world, needSession(id!))),
  ];
}

/** Expires an open session, which can then no longer be paid. */
export function expire(world: World, session: Stripe.Checkout.Session): Stripe.Checkout.Session {
  if (session.status !== "open")
    throw invalid(
      `Only Checkout Sessions with a status in ["open"] can be expired. This Checkout Session has a status of ${session.status}`,
      "session",
    );
  session.status = "expired";
  session.url = null;
  world.emit("checkout.session.expired", session);
  return session;
}
