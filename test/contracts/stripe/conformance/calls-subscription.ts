import { type Calls, CREATED } from "./calls.ts";

const metadata = { accountId: "acc_1", tierId: "pro", cadence: "annual", priceVersion: "2026-11" };

/** Checkout, subscriptions, invoices, refunds, credit, the portal. */
export const subscriptionCalls: Calls = {
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
        automatic_tax: { enabled: true },
        tax_id_collection: { enabled: true },
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
        metadata: { ...metadata, choice: "pro annual 2" },
      }),
  ],
  "GET /v1/checkout/sessions/{id}": [({ checkout }) => checkout.sessions.retrieve("cs_1")],
  "POST /v1/checkout/sessions/{id}/expire": [({ checkout }) => checkout.sessions.expire("cs_1")],

  "GET /v1/subscriptions": [
    ({ subscriptions }) =>
      subscriptions.list({
        customer: "cus_1",
        status: "all",
        limit: 100,
        expand: [
          "data.default_payment_method",
          "data.discounts.source.coupon",
          "data.discounts.promotion_code",
          "data.customer.invoice_settings.default_payment_method",
        ],
      }),
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
    ({ subscriptions }) =>
      subscriptions.update(
        "sub_1",
        {
          items: [
            { id: "si_1", price: "price_4", quantity: 1 },
            { id: "si_2", price: "price_5", quantity: 0 },
          ],
          proration_behavior: "always_invoice",
          proration_date: CREATED,
          payment_behavior: "error_if_incomplete",
          metadata: { planChange: "pch_1" },
        },
        { idempotencyKey: "plan:pch_1:0" },
      ),
  ],
  "POST /v1/subscription_schedules": [
    ({ subscriptionSchedules }) =>
      subscriptionSchedules.create({ from_subscription: "sub_1" }, { idempotencyKey: "schedule:pch_1:0" }),
  ],
  "GET /v1/subscription_schedules/{id}": [
    ({ subscriptionSchedules }) => subscriptionSchedules.retrieve("sub_sched_1"),
  ],
  "POST /v1/subscription_schedules/{id}": [
    ({ subscriptionSchedules }) =>
      subscriptionSchedules.update("sub_sched_1", {
        end_behavior: "release",
        proration_behavior: "none",
        metadata: { accountId: "acc_1" },
        phases: [
          {
            items: [{ price: "price_4", quantity: 1 }, { price: "price_3" }],
            discounts: [{ discount: "di_1" }],
            start_date: CREATED,
            end_date: CREATED + 2_592_000,
            automatic_tax: { enabled: true },
            proration_behavior: "none",
          },
          {
            items: [{ price: "price_1", quantity: 1 }, { price: "price_3" }],
            discounts: [{ discount: "di_1" }],
            duration: { interval: "month", interval_count: 1 },
            automatic_tax: { enabled: true },
            proration_behavior: "none",
          },
        ],
      }),
  ],
  "POST /v1/subscription_schedules/{id}/release": [
    ({ subscriptionSchedules }) => subscriptionSchedules.release("sub_sched_1"),
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
    ({ invoices }) =>
      invoices.list({ subscription: "sub_1", status: "paid", limit: 100, expand: ["data.payments"] }),
  ],
  "POST /v1/invoices/create_preview": [
    ({ invoices }) =>
      invoices.createPreview({
        subscription: "sub_1",
        subscription_details: { cancel_now: true, proration_behavior: "none" },
      }),
    ({ invoices }) =>
      invoices.createPreview({
        subscription: "sub_1",
        subscription_details: { cancel_at_period_end: true },
      }),
    ({ invoices }) =>
      invoices.createPreview({
        subscription: "sub_1",
        subscription_details: {
          items: [{ id: "si_1", price: "price_4", quantity: 1 }],
          proration_behavior: "always_invoice",
          proration_date: CREATED,
        },
      }),
    ({ invoices }) =>
      invoices.createPreview({
        customer: "cus_1",
        subscription_details: { items: [{ price: "price_1", quantity: 1 }] },
        discounts: [{ promotion_code: "promo_1" }],
        automatic_tax: { enabled: true },
      }),
  ],
  "POST /v1/invoiceitems": [
    ({ invoiceItems }) =>
      invoiceItems.create(
        {
          customer: "cus_1",
          invoice: "in_1",
          amount: -20_000,
          currency: "usd",
          description: "Plan and members",
          tax_behavior: "exclusive",
          metadata: { settles: "sub_1" },
        },
        { idempotencyKey: "reduce:in_1" },
      ),
  ],
  "GET /v1/invoice_payments": [
    ({ invoicePayments }) =>
      invoicePayments.list({ invoice: "in_1", status: "open", expand: ["data.payment.payment_intent"] }),
    ({ invoicePayments }) =>
      invoicePayments.list({
        payment: { type: "payment_intent", payment_intent: "pi_1" },
        limit: 1,
        expand: ["data.invoice"],
      }),
  ],
  "POST /v1/invoices/{id}": [({ invoices }) => invoices.update("in_1", { auto_advance: true })],
  "GET /v1/invoices/{id}/lines": [({ invoices }) => invoices.listLineItems("in_1", { limit: 100 })],
  "POST /v1/invoices/{id}/finalize": [
    ({ invoices }) => invoices.finalizeInvoice("in_1", { auto_advance: false }),
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
    ({ creditNotes }) =>
      creditNotes.create({ invoice: "in_1", amount: 16_000, refund_amount: 16_000, reason: "order_change" }),
    ({ creditNotes }) =>
      creditNotes.create({
        invoice: "in_1",
        amount: 2_000,
        credit_amount: 500,
        metadata: { settles: "sub_1" },
      }),
  ],
  "GET /v1/disputes": [
    ({ disputes }) => disputes.list({ payment_intent: "pi_1", limit: 100 }),
    ({ disputes }) => disputes.list({ created: { gte: CREATED }, limit: 100 }),
  ],
  "GET /v1/disputes/{id}": [({ disputes }) => disputes.retrieve("du_1")],
  "POST /v1/disputes/{id}": [
    ({ disputes }) =>
      disputes.update("du_1", { evidence: { uncategorized_text: "winning_evidence" }, submit: true }),
  ],
  "POST /v1/disputes/{id}/close": [({ disputes }) => disputes.close("du_1")],
  "GET /v1/tax/settings": [({ tax }) => tax.settings.retrieve()],
  "GET /v1/tax/registrations": [({ tax }) => tax.registrations.list({ status: "active", limit: 100 })],
  "GET /v1/tax_rates/{id}": [({ taxRates }) => taxRates.retrieve("txr_1")],
  "GET /v1/refunds": [({ refunds }) => refunds.list({ payment_intent: "pi_1", limit: 100 })],
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
  "POST /v1/billing/credit_grants/{id}": [({ billing }) => billing.creditGrants.update("credgr_1", {})],
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
  "POST /v1/billing_portal/configurations/{id}": [
    ({ billingPortal }) => billingPortal.configurations.update("bpc_1", {}),
  ],
  "POST /v1/billing_portal/sessions": [
    ({ billingPortal }) =>
      billingPortal.sessions.create({
        customer: "cus_1",
        configuration: "bpc_1",
        return_url: "https://berth.example.com/billing",
      }),
  ],
};
