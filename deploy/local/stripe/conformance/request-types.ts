import type { Stripe } from "stripe";

/**
 * The parameters of every request to Stripe that Berth and its tests make, by method and path. `generate.ts` turns them into JSON
 * Schemas: a request that is not here is refused where requests are checked.
 */
export type RequestTypes = {
  "GET /v1/customers": Stripe.CustomerListParams;
  "POST /v1/customers": Stripe.CustomerCreateParams;
  "GET /v1/customers/search": Stripe.CustomerSearchParams;
  "GET /v1/customers/{id}": Stripe.CustomerRetrieveParams;
  "POST /v1/customers/{id}": Stripe.CustomerUpdateParams;
  "DELETE /v1/customers/{id}": Stripe.CustomerDeleteParams;
  "POST /v1/payment_methods/{id}/attach": Stripe.PaymentMethodAttachParams;

  "GET /v1/products": Stripe.ProductListParams;
  "POST /v1/products": Stripe.ProductCreateParams;
  "GET /v1/products/{id}": Stripe.ProductRetrieveParams;
  "POST /v1/products/{id}": Stripe.ProductUpdateParams;
  "GET /v1/prices": Stripe.PriceListParams;
  "POST /v1/prices": Stripe.PriceCreateParams;
  "GET /v1/prices/{id}": Stripe.PriceRetrieveParams;
  "GET /v1/billing/meters": Stripe.Billing.MeterListParams;
  "POST /v1/billing/meters": Stripe.Billing.MeterCreateParams;
  "GET /v1/billing/meters/{id}/event_summaries": Stripe.Billing.MeterListEventSummariesParams;
  "POST /v1/billing/meter_events": Stripe.Billing.MeterEventCreateParams;

  "GET /v1/coupons/{id}": Stripe.CouponRetrieveParams;
  "POST /v1/coupons": Stripe.CouponCreateParams;
  "GET /v1/promotion_codes": Stripe.PromotionCodeListParams;
  "POST /v1/promotion_codes": Stripe.PromotionCodeCreateParams;
  "GET /v1/promotion_codes/{id}": Stripe.PromotionCodeRetrieveParams;

  "GET /v1/checkout/sessions": Stripe.Checkout.SessionListParams;
  "POST /v1/checkout/sessions": Stripe.Checkout.SessionCreateParams;
  "GET /v1/checkout/sessions/{id}": Stripe.Checkout.SessionRetrieveParams;
  "POST /v1/checkout/sessions/{id}/expire": Stripe.Checkout.SessionExpireParams;

  "GET /v1/subscriptions": Stripe.SubscriptionListParams;
  "POST /v1/subscriptions": Stripe.SubscriptionCreateParams;
  "GET /v1/subscriptions/{id}": Stripe.SubscriptionRetrieveParams;
  "POST /v1/subscriptions/{id}": Stripe.SubscriptionUpdateParams;
  "DELETE /v1/subscriptions/{id}": Stripe.SubscriptionCancelParams;
  "DELETE /v1/subscriptions/{id}/discount": Stripe.SubscriptionDeleteDiscountParams;
  "POST /v1/subscription_items": Stripe.SubscriptionItemCreateParams;
  "POST /v1/subscription_items/{id}": Stripe.SubscriptionItemUpdateParams;
  "DELETE /v1/subscription_items/{id}": Stripe.SubscriptionItemDeleteParams;

  "GET /v1/invoices": Stripe.InvoiceListParams;
  "GET /v1/invoices/{id}": Stripe.InvoiceRetrieveParams;
  "POST /v1/invoices/{id}/pay": Stripe.InvoicePayParams;
  "POST /v1/invoices/{id}/void": Stripe.InvoiceVoidInvoiceParams;
  "GET /v1/credit_notes/preview": Stripe.CreditNotePreviewParams;
  "GET /v1/credit_notes": Stripe.CreditNoteListParams;
  "POST /v1/credit_notes": Stripe.CreditNoteCreateParams;
  "GET /v1/refunds/{id}": Stripe.RefundRetrieveParams;
  "POST /v1/refunds": Stripe.RefundCreateParams;
  "POST /v1/billing/credit_grants": Stripe.Billing.CreditGrantCreateParams;
  "GET /v1/billing/credit_grants": Stripe.Billing.CreditGrantListParams;

  "GET /v1/billing_portal/configurations": Stripe.BillingPortal.ConfigurationListParams;
  "POST /v1/billing_portal/configurations": Stripe.BillingPortal.ConfigurationCreateParams;
  "POST /v1/billing_portal/sessions": Stripe.BillingPortal.SessionCreateParams;

  "GET /v1/webhook_endpoints": Stripe.WebhookEndpointListParams;
  "POST /v1/webhook_endpoints": Stripe.WebhookEndpointCreateParams;
  "GET /v1/events": Stripe.EventListParams;
};
