import type Stripe from "stripe";
import { amountOf, isMetered } from "../catalog/prices.ts";
import { toDiscountSources } from "../catalog/promotion-codes.ts";
import { invalid } from "../http/errors.ts";
import { needCustomer } from "../http/lookup.ts";
import { mergeMetadata } from "../http/params.ts";
import { newId, randomWord } from "../state/ids.ts";
import type { World } from "../state/world.ts";
import { checkIntervals, needPrice } from "../subscriptions/build.ts";
import { toSessionTotals } from "./session-lines.ts";

const HOUR_SECONDS = 60 * 60;
const SHORTEST_SECONDS = HOUR_SECONDS / 2;
const LONGEST_SECONDS = 24 * HOUR_SECONDS;

type Params = Stripe.Checkout.SessionCreateParams;

/** Adds a checkout session for a subscription, with Stripe's restrictions. */
export function createSession(world: World, params: Params): Stripe.Checkout.Session {
  const { state, clock, url } = world;
  const now = clock.now();
  const customer = needCustomer(state, params.customer);
  const isAllowed = (end: number) => end >= now + SHORTEST_SECONDS && end <= now + LONGEST_SECONDS;
  const asked = params.expires_at ?? now + LONGEST_SECONDS;
  // The client's clock was possibly not advanced with this one.
  const expires = [asked, asked + clock.ahead()].find(isAllowed);
  if (expires === undefined)
    throw invalid(
      "The `expires_at` timestamp must be at least 30 minutes and at most 24 hours from Checkout Session creation.",
      "expires_at",
    );
  const id = newId("cs_test", 58);
  state.orders.set(id, toOrder(world, params, customer.id));
  const { subtotal, discount, total } = toSessionTotals(world, id);
  const source = state.orders.get(id)!.discount;
  const session = {
    id,
    object: "checkout.session",
    adaptive_pricing: null,
    after_expiration: null,
    allow_promotion_codes: null,
    allowed_payment_method_types: null,
    amount_subtotal: subtotal,
    amount_total: total,
    automatic_tax: {
      enabled: params.automatic_tax?.enabled ?? false,
      liability: null,
      provider: params.automatic_tax?.enabled ? "stripe" : null,
      status: params.automatic_tax?.enabled ? "requires_location_inputs" : null,
    },
    tax_id_collection: {
      enabled: params.tax_id_collection?.enabled ?? false,
      required: "never",
    },
    billing_address_collection: params.billing_address_collection ?? null,
    cancel_url: params.cancel_url ?? null,
    client_reference_id: params.client_reference_id ?? null,
    client_secret: null,
    collected_information: null,
    consent: null,
    consent_collection: null,
    created: now,
    currency: "usd",
    currency_conversion: null,
    custom_fields: [],
    custom_text: {
      after_submit: null,
      shipping_address: null,
      submit: null,
      terms_of_service_acceptance: null,
    },
    customer: customer.id,
    customer_account: null,
    customer_creation: null,
    customer_details: {
      address: customer.address ?? null,
      business_name: null,
      email: customer.email,
      individual_name: null,
      name: customer.name ?? null,
      phone: customer.phone ?? null,
      tax_exempt: "none",
      tax_ids: null,
    },
    customer_email: null,
    discounts: source
      ? [{ coupon: source.promotion_code ? null : source.coupon, promotion_code: source.promotion_code }]
      : [],
    expires_at: expires,
    integration_identifier: null,
    invoice: null,
    invoice_creation: null,
    livemode: false,
    locale: params.locale ?? null,
    managed_payments: null,
    metadata: mergeMetadata({}, params.metadata),
    mode: "subscription",
    origin_context: null,
    payment_intent: null,
    payment_link: null,
    payment_method_collection: "always",
    payment_method_configuration_details: null,
    payment_method_options: null,
    payment_method_types: ["card"],
    payment_status: "unpaid",
    permissions: null,
    recovered_from: null,
    saved_payment_method_options: null,
    setup_intent: null,
    shipping_address_collection: null,
    shipping_cost: null,
    shipping_options: [],
    status: "open",
    submit_type: null,
    subscription: null,
    success_url: params.success_url!,
    total_details: { amount_discount: discount, amount_shipping: 0, amount_tax: 0 },
    ui_mode: "hosted_page",
    url: `${url}/c/${id}#${randomWord(24)}`,
    wallet_options: null,
  } satisfies Stripe.Checkout.Session;
  state.checkoutSessions.set(id, session);
  return session;
}

function toOrder(world: World, params: Params, customer: string) {
  const { state } = world;
  const items = params.line_items ?? [];
  if (items.length === 0)
    throw invalid("Missing required param: line_items.", "line_items", "parameter_missing");
  const prices = items.map(({ price, quantity }, index) => {
    const found = needPrice(world, price!, `line_items[${index}][price]`);
    if (isMetered(found) && quantity !== undefined)
      throw invalid(
        "Quantity should not be specified where usage_type is `metered`.",
        `line_items[${index}][quantity]`,
      );
    if (!isMetered(found) && quantity === undefined)
      throw invalid(
        "Quantity is required. Add `quantity` to `line_items`.",
        `line_items[${index}][quantity]`,
      );
    return found;
  });
  const isUnclear = prices.some(({ tax_behavior }) => tax_behavior === "unspecified");
  if (params.automatic_tax?.enabled && isUnclear && !state.tax.tax_behavior)
    throw invalid(
      "Set tax_behavior on the prices, or a default in the settings of Stripe Tax.",
      "line_items",
    );
  // Only the Subscriptions API accepts mixed intervals, also in flexible mode.
  checkIntervals(prices, "checkout");
  const amount = prices.reduce((sum, price, index) => sum + amountOf(price, items[index]!.quantity ?? 0), 0);
  const [discount] = toDiscountSources(world, params.discounts || [], customer, amount);
  return {
    lines: items.map(({ quantity }, index) => ({ id: newId("li"), price: prices[index]!.id, quantity })),
    subscription: params.subscription_data ?? {},
    discount,
  };
}
