import { Stripe } from "stripe";
import type { RequestTypes } from "./request-types.ts";

type Calls = { [R in keyof RequestTypes]: ((stripe: Stripe) => Promise<unknown>)[] };

const CREATED = 1_793_491_200; // 2026-11-01
const metadata = { accountId: "acc_1", tierId: "pro", cadence: "annual", priceVersion: "2026-11" };

/** The calls of the SDK behind each request, with every parameter that Berth gives. */
export const sdkCalls: Calls = {
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

  "GET /v1/promotion_codes/{id}": [({ promotionCodes }) => promotionCodes.retrieve("promo_1")],
  "GET /v1/checkout/sessions": [
    ({ checkout }) => checkout.sessions.list({ customer: "cus_1", status: "open", limit: 10 }),
  ],
  "POST /v1/checkout/sessions": [
    ({ checkout }) =>
      checkout.sessions.create({
        mode: "subscription",
        ui_mode: "hosted_page",
        customer: "cus_1",
        customer_update: { address: "auto", name: "auto" },
        client_reference_id: "acc_1",
        success_url: "https://berth.example.com/billing?checkout=done",
        cancel_url: "https://berth.example.com/billing",
        line_items: [
          { price: "price_1", quantity: 1 },
          { price: "price_2", quantity: 2 },
        ],
        discounts: [{ promotion_code: "promo_1" }],
        subscription_data: { billing_mode: { type: "flexible" }, metadata },
        expires_at: CREATED + 3_600,
        metadata: { ...metadata, hash: "5d41402a" },
      }),
  ],
  "GET /v1/checkout/sessions/{id}": [({ checkout }) => checkout.sessions.retrieve("cs_1")],
  "POST /v1/checkout/sessions/{id}/expire": [({ checkout }) => checkout.sessions.expire("cs_1")],

  "GET /v1/subscriptions": [
    ({ subscriptions }) => subscriptions.list({ customer: "cus_1", status: "all", limit: 10 }),
  ],
  "POST /v1/subscriptions": [
    ({ subscriptions }) =>
      subscriptions.create({
        customer: "cus_1",
        items: [{ price: "price_1", quantity: 1 }],
        billing_mode: { type: "flexible" },
        default_payment_method: "pm_card_visa",
        discounts: [{ promotion_code: "promo_1" }],
        metadata,
      }),
  ],
  "GET /v1/subscriptions/{id}": [
    ({ subscriptions }) =>
      subscriptions.retrieve("sub_1", {
        expand: [
          "items.data.price",
          "default_payment_method",
          "discounts.source.coupon",
          "discounts.promotion_code",
          "customer.invoice_settings.default_payment_method",
        ],
      }),
  ],
  "POST /v1/subscriptions/{id}": [
    ({ subscriptions }) =>
      subscriptions.update("sub_1", {
        cancel_at_period_end: true,
        cancellation_details: { comment: "too expensive" },
      }),
    ({ subscriptions }) =>
      subscriptions.update("sub_1", {
        discounts: [{ promotion_code: "promo_1" }],
        proration_behavior: "none",
      }),
    ({ subscriptions }) => subscriptions.update("sub_1", { discounts: "" }),
  ],
  "DELETE /v1/subscriptions/{id}": [
    ({ subscriptions }) => subscriptions.cancel("sub_1", { invoice_now: true, prorate: false }),
  ],
  "DELETE /v1/subscriptions/{id}/discount": [({ subscriptions }) => subscriptions.deleteDiscount("sub_1")],
  "POST /v1/subscription_items": [
    ({ subscriptionItems }) =>
      subscriptionItems.create(
        { subscription: "sub_1", price: "price_3", proration_behavior: "none" },
        { idempotencyKey: "attach:sub_1" },
      ),
    ({ subscriptionItems }) =>
      subscriptionItems.create({
        subscription: "sub_1",
        price: "price_2",
        quantity: 1,
        proration_behavior: "always_invoice",
      }),
  ],
  "POST /v1/subscription_items/{id}": [
    ({ subscriptionItems }) =>
      subscriptionItems.update("si_1", { quantity: 3, proration_behavior: "create_prorations" }),
    ({ subscriptionItems }) =>
      subscriptionItems.update("si_1", {
        discounts: [{ promotion_code: "promo_1" }],
        proration_behavior: "none",
      }),
  ],
  "DELETE /v1/subscription_items/{id}": [
    ({ subscriptionItems }) =>
      subscriptionItems.del("si_1", { proration_behavior: "none", clear_usage: true }),
  ],

  "GET /v1/invoices": [
    ({ invoices }) =>
      invoices.list({ customer: "cus_1", status: "open", created: { gte: CREATED }, limit: 100 }),
    ({ invoices }) => invoices.list({ subscription: "sub_1", limit: 24 }),
  ],
  "GET /v1/invoices/{id}": [({ invoices }) => invoices.retrieve("in_1", { expand: ["payments"] })],
  "POST /v1/invoices/{id}/pay": [({ invoices }) => invoices.pay("in_1", {}, { idempotencyKey: "pay:in_1" })],
  "POST /v1/invoices/{id}/void": [({ invoices }) => invoices.voidInvoice("in_1")],
  "GET /v1/credit_notes/preview": [
    ({ creditNotes }) =>
      creditNotes.preview({
        invoice: "in_1",
        lines: [{ type: "invoice_line_item", invoice_line_item: "il_1", amount: 16_000 }],
        refund_amount: 16_000,
      }),
  ],
  "GET /v1/credit_notes": [({ creditNotes }) => creditNotes.list({ invoice: "in_1", limit: 10 })],
  "POST /v1/credit_notes": [
    ({ creditNotes }) =>
      creditNotes.create(
        {
          invoice: "in_1",
          lines: [{ type: "invoice_line_item", invoice_line_item: "il_1", amount: 16_000 }],
          refund_amount: 15_000,
          credit_amount: 1_000,
          reason: "order_change",
          email_type: "none",
          memo: "Canceled",
          metadata: { accountId: "acc_1" },
        },
        { idempotencyKey: "refund:sub_1" },
      ),
  ],
  "GET /v1/refunds/{id}": [({ refunds }) => refunds.retrieve("re_1")],
  "POST /v1/refunds": [
    ({ refunds }) =>
      refunds.create({
        payment_intent: "pi_1",
        amount: 2_000,
        reason: "duplicate",
        metadata: { accountId: "acc_1" },
      }),
  ],
  "GET /v1/billing/credit_grants": [
    ({ billing }) => billing.creditGrants.list({ customer: "cus_1", limit: 100 }),
  ],
  "POST /v1/billing/credit_grants": [
    ({ billing }) =>
      billing.creditGrants.create({
        name: "Plan credit",
        customer: "cus_1",
        category: "promotional",
        amount: { type: "monetary", monetary: { currency: "usd", value: 1_000 } },
        applicability_config: { scope: { prices: [{ id: "price_3" }] } },
        effective_at: CREATED,
        expires_at: CREATED + 2_592_000,
        metadata: { accountId: "acc_1" },
      }),
    ({ billing }) =>
      billing.creditGrants.create({
        customer: "cus_1",
        category: "promotional",
        amount: { type: "monetary", monetary: { currency: "usd", value: 1_000 } },
        applicability_config: { scope: { price_type: "metered" } },
      }),
  ],

  "GET /v1/billing_portal/configurations": [
    ({ billingPortal }) => billingPortal.configurations.list({ active: true, limit: 100 }),
  ],
  "POST /v1/billing_portal/configurations": [
    ({ billingPortal }) =>
      billingPortal.configurations.create({
        business_profile: { headline: "Berth" },
        features: {
          invoice_history: { enabled: true },
          payment_method_update: { enabled: true },
          customer_update: { enabled: true, allowed_updates: ["email", "address", "tax_id"] },
          subscription_cancel: { enabled: false },
          subscription_update: { enabled: false },
          subscription_pause: { enabled: false },
        },
        metadata: { berth: "portal" },
      }),
  ],
  "POST /v1/billing_portal/sessions": [
    ({ billingPortal }) =>
      billingPortal.sessions.create({
        customer: "cus_1",
        configuration: "bpc_1",
        return_url: "https://berth.example.com/billing",
      }),
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
