import { Stripe } from "stripe";
import { type Calls, CREATED } from "./calls.ts";

/** Customers, what is sold, coupons, webhook endpoints, events. */
export const catalogCalls: Calls = {
  "GET /v1/customers": [({ customers }) => customers.list({ email: "ada@example.com", limit: 10 })],
  "POST /v1/customers": [
    ({ customers }) =>
      customers.create(
        { email: "ada@example.com", name: "ada", metadata: { accountId: "acc_1" } },
        { idempotencyKey: "cus:acc_1" },
      ),
  ],
  "GET /v1/customers/search": [
    ({ customers }) => customers.search({ query: "metadata['accountId']:'acc_1'", limit: 1 }),
  ],
  "GET /v1/customers/{id}": [
    ({ customers }) => customers.retrieve("cus_1", { expand: ["invoice_settings.default_payment_method"] }),
  ],
  "POST /v1/customers/{id}": [({ customers }) => customers.update("cus_1", { email: "", name: "ada" })],

  "DELETE /v1/customers/{id}": [({ customers }) => customers.del("cus_1")],
  "POST /v1/payment_methods/{id}/attach": [
    ({ paymentMethods }) => paymentMethods.attach("pm_card_visa", { customer: "cus_1" }),
  ],

  "GET /v1/products": [({ products }) => products.list({ active: true, limit: 100 })],
  "POST /v1/products": [
    ({ products }) =>
      products.create(
        { id: "berth_plan_pro", name: "Berth Pro", metadata: { kind: "plan", tierId: "pro" } },
        { idempotencyKey: "p" },
      ),
  ],
  "GET /v1/products/{id}": [({ products }) => products.retrieve("prod_1")],
  "POST /v1/products/{id}": [({ products }) => products.update("prod_1", { name: "Berth Pro" })],
  "GET /v1/prices": [
    ({ prices }) =>
      prices.list({ lookup_keys: ["plan_pro_monthly_2026-11"], limit: 10, expand: ["data.product"] }),
  ],
  "POST /v1/prices": [
    ({ prices }) =>
      prices.create({
        product: "prod_1",
        currency: "usd",
        unit_amount: 2_000,
        lookup_key: "plan_pro_monthly_2026-11",
        recurring: { interval: "month" },
        metadata: { priceVersion: "2026-11" },
      }),
    ({ prices }) =>
      prices.create({
        product: "prod_2",
        currency: "usd",
        unit_amount_decimal: Stripe.Decimal.from("0.01"),
        lookup_key: "compute_monthly_2026-11",
        recurring: { interval: "month", usage_type: "metered", meter: "mtr_1" },
      }),
  ],
  "POST /v1/prices/{id}": [({ prices }) => prices.update("price_1", { tax_behavior: "exclusive" })],
  "GET /v1/prices/{id}": [({ prices }) => prices.retrieve("price_1")],
  "GET /v1/billing/meters": [({ billing }) => billing.meters.list({ status: "active", limit: 100 })],
  "POST /v1/billing/meters": [
    ({ billing }) =>
      billing.meters.create({
        display_name: "Compute",
        event_name: "compute_usage",
        default_aggregation: { formula: "last" },
        customer_mapping: { type: "by_id", event_payload_key: "stripe_customer_id" },
        value_settings: { event_payload_key: "value" },
      }),
  ],
  "GET /v1/billing/meters/{id}/event_summaries": [
    ({ billing }) =>
      billing.meters.listEventSummaries("mtr_1", {
        customer: "cus_1",
        start_time: CREATED,
        end_time: CREATED + 86_400,
      }),
  ],
  "POST /v1/billing/meter_events": [
    ({ billing }) =>
      billing.meterEvents.create({
        event_name: "compute_usage",
        identifier: "acc_1:2026-11:1",
        timestamp: CREATED,
        payload: { stripe_customer_id: "cus_1", value: "1200" },
      }),
  ],

  "GET /v1/coupons/{id}": [({ coupons }) => coupons.retrieve("cp_1", { expand: ["applies_to"] })],
  "POST /v1/coupons": [
    ({ coupons }) =>
      coupons.create({
        percent_off: 25,
        duration: "repeating",
        duration_in_months: 3,
        max_redemptions: 100,
        redeem_by: CREATED,
        applies_to: { products: ["prod_1"] },
      }),
    ({ coupons }) => coupons.create({ amount_off: 500, currency: "usd", duration: "once", name: "Welcome" }),
  ],
  "POST /v1/coupons/{id}": [({ coupons }) => coupons.update("cp_1", {})],
  "GET /v1/promotion_codes": [
    ({ promotionCodes }) =>
      promotionCodes.list({
        code: "WELCOME",
        limit: 10,
        expand: ["data.promotion.coupon", "data.promotion.coupon.applies_to"],
      }),
  ],
  "POST /v1/promotion_codes": [
    ({ promotionCodes }) =>
      promotionCodes.create({
        code: "WELCOME",
        promotion: { type: "coupon", coupon: "cp_1" },
        customer: "cus_1",
        max_redemptions: 1,
        restrictions: { first_time_transaction: true, minimum_amount: 1_000, minimum_amount_currency: "usd" },
      }),
  ],

  "GET /v1/promotion_codes/{id}": [
    ({ promotionCodes }) => promotionCodes.retrieve("promo_1", { expand: ["promotion.coupon.applies_to"] }),
  ],

  "GET /v1/webhook_endpoints": [({ webhookEndpoints }) => webhookEndpoints.list({ limit: 100 })],
  "POST /v1/webhook_endpoints": [
    ({ webhookEndpoints }) =>
      webhookEndpoints.create({
        url: "https://berth.example.com/webhooks/stripe",
        enabled_events: ["checkout.session.completed", "invoice.paid", "customer.subscription.deleted"],
        api_version: Stripe.API_VERSION,
        metadata: { berth: "webhook" },
      }),
  ],
  "GET /v1/events": [
    ({ events }) =>
      events.list({
        created: { gte: CREATED },
        types: ["invoice.paid", "checkout.session.completed"],
        limit: 100,
      }),
  ],
};
