import type { Stripe } from "stripe";

/**
 * The parameters of every request that the simulator answers, by method and path: more than Berth makes, tests prepare
 * things too. `generate.ts` turns them into JSON Schemas.
 */
export type RequestTypes = {
  "GET /v1/billing/credit_grants": Stripe.Billing.CreditGrantListParams;
  "POST /v1/billing/credit_grants": Stripe.Billing.CreditGrantCreateParams;
  "GET /v1/billing/credit_grants/{id}": Stripe.Billing.CreditGrantRetrieveParams;
  "POST /v1/billing/credit_grants/{id}": Stripe.Billing.CreditGrantUpdateParams;
  "POST /v1/billing/credit_grants/{id}/expire": Stripe.Billing.CreditGrantExpireParams;
  "POST /v1/billing/credit_grants/{id}/void": Stripe.Billing.CreditGrantVoidGrantParams;

  "POST /v1/billing/meter_events": Stripe.Billing.MeterEventCreateParams;

  "GET /v1/billing/meters": Stripe.Billing.MeterListParams;
  "POST /v1/billing/meters": Stripe.Billing.MeterCreateParams;
  "GET /v1/billing/meters/{id}": Stripe.Billing.MeterRetrieveParams;
  "POST /v1/billing/meters/{id}": Stripe.Billing.MeterUpdateParams;
  "POST /v1/billing/meters/{id}/deactivate": Stripe.Billing.MeterDeactivateParams;
  "GET /v1/billing/meters/{id}/event_summaries": Stripe.Billing.MeterListEventSummariesParams;
  "POST /v1/billing/meters/{id}/reactivate": Stripe.Billing.MeterReactivateParams;

  "GET /v1/billing_portal/configurations": Stripe.BillingPortal.ConfigurationListParams;
  "POST /v1/billing_portal/configurations": Stripe.BillingPortal.ConfigurationCreateParams;
  "GET /v1/billing_portal/configurations/{id}": Stripe.BillingPortal.ConfigurationRetrieveParams;
  "POST /v1/billing_portal/configurations/{id}": Stripe.BillingPortal.ConfigurationUpdateParams;

  "POST /v1/billing_portal/sessions": Stripe.BillingPortal.SessionCreateParams;

  "GET /v1/checkout/sessions": Stripe.Checkout.SessionListParams;
  "POST /v1/checkout/sessions": Stripe.Checkout.SessionCreateParams;
  "GET /v1/checkout/sessions/{id}": Stripe.Checkout.SessionRetrieveParams;
  "POST /v1/checkout/sessions/{id}/expire": Stripe.Checkout.SessionExpireParams;
  "GET /v1/checkout/sessions/{id}/line_items": Stripe.Checkout.SessionListLineItemsParams;

  "GET /v1/coupons": Stripe.CouponListParams;
  "POST /v1/coupons": Stripe.CouponCreateParams;
  "GET /v1/coupons/{id}": Stripe.CouponRetrieveParams;
  "POST /v1/coupons/{id}": Stripe.CouponUpdateParams;
  "DELETE /v1/coupons/{id}": Stripe.CouponDeleteParams;

  "GET /v1/credit_notes": Stripe.CreditNoteListParams;
  "POST /v1/credit_notes": Stripe.CreditNoteCreateParams;
  "GET /v1/credit_notes/preview": Stripe.CreditNotePreviewParams;
  "GET /v1/credit_notes/{id}": Stripe.CreditNoteRetrieveParams;
  "POST /v1/credit_notes/{id}": Stripe.CreditNoteUpdateParams;
  "GET /v1/credit_notes/{id}/lines": Stripe.CreditNoteListLineItemsParams;

  "GET /v1/customers": Stripe.CustomerListParams;
  "POST /v1/customers": Stripe.CustomerCreateParams;
  "GET /v1/customers/search": Stripe.CustomerSearchParams;
  "GET /v1/customers/{id}": Stripe.CustomerRetrieveParams;
  "POST /v1/customers/{id}": Stripe.CustomerUpdateParams;
  "DELETE /v1/customers/{id}": Stripe.CustomerDeleteParams;
  "GET /v1/customers/{id}/payment_methods": Stripe.CustomerListPaymentMethodsParams;

  "GET /v1/disputes": Stripe.DisputeListParams;
  "GET /v1/disputes/{id}": Stripe.DisputeRetrieveParams;
  "POST /v1/disputes/{id}": Stripe.DisputeUpdateParams;
  "POST /v1/disputes/{id}/close": Stripe.DisputeCloseParams;

  "GET /v1/events": Stripe.EventListParams;
  "GET /v1/events/{id}": Stripe.EventRetrieveParams;

  "GET /v1/invoice_payments": Stripe.InvoicePaymentListParams;
  "GET /v1/invoice_payments/{id}": Stripe.InvoicePaymentRetrieveParams;

  "GET /v1/invoiceitems": Stripe.InvoiceItemListParams;
  "POST /v1/invoiceitems": Stripe.InvoiceItemCreateParams;
  "GET /v1/invoiceitems/{id}": Stripe.InvoiceItemRetrieveParams;
  "DELETE /v1/invoiceitems/{id}": Stripe.InvoiceItemDeleteParams;

  "GET /v1/invoices": Stripe.InvoiceListParams;
  "POST /v1/invoices/create_preview": Stripe.InvoiceCreatePreviewParams;
  "GET /v1/invoices/{id}": Stripe.InvoiceRetrieveParams;
  "POST /v1/invoices/{id}": Stripe.InvoiceUpdateParams;
  "DELETE /v1/invoices/{id}": Stripe.InvoiceDeleteParams;
  "POST /v1/invoices/{id}/finalize": Stripe.InvoiceFinalizeInvoiceParams;
  "GET /v1/invoices/{id}/lines": Stripe.InvoiceListLineItemsParams;
  "POST /v1/invoices/{id}/mark_uncollectible": Stripe.InvoiceMarkUncollectibleParams;
  "POST /v1/invoices/{id}/pay": Stripe.InvoicePayParams;
  "POST /v1/invoices/{id}/void": Stripe.InvoiceVoidInvoiceParams;

  "GET /v1/payment_methods": Stripe.PaymentMethodListParams;
  "POST /v1/payment_methods": Stripe.PaymentMethodCreateParams;
  "GET /v1/payment_methods/{id}": Stripe.PaymentMethodRetrieveParams;
  "POST /v1/payment_methods/{id}/attach": Stripe.PaymentMethodAttachParams;
  "POST /v1/payment_methods/{id}/detach": Stripe.PaymentMethodDetachParams;

  "GET /v1/prices": Stripe.PriceListParams;
  "POST /v1/prices": Stripe.PriceCreateParams;
  "GET /v1/prices/{id}": Stripe.PriceRetrieveParams;
  "POST /v1/prices/{id}": Stripe.PriceUpdateParams;

  "GET /v1/products": Stripe.ProductListParams;
  "POST /v1/products": Stripe.ProductCreateParams;
  "GET /v1/products/{id}": Stripe.ProductRetrieveParams;
  "POST /v1/products/{id}": Stripe.ProductUpdateParams;
  "DELETE /v1/products/{id}": Stripe.ProductDeleteParams;

  "GET /v1/promotion_codes": Stripe.PromotionCodeListParams;
  "POST /v1/promotion_codes": Stripe.PromotionCodeCreateParams;
  "GET /v1/promotion_codes/{id}": Stripe.PromotionCodeRetrieveParams;
  "POST /v1/promotion_codes/{id}": Stripe.PromotionCodeUpdateParams;

  "GET /v1/tax/settings": Stripe.Tax.SettingsRetrieveParams;
  "POST /v1/tax/settings": Stripe.Tax.SettingsUpdateParams;
  "GET /v1/tax/registrations": Stripe.Tax.RegistrationListParams;
  "POST /v1/tax/registrations": Stripe.Tax.RegistrationCreateParams;
  "GET /v1/tax_rates/{id}": Stripe.TaxRateRetrieveParams;

  "GET /v1/refunds": Stripe.RefundListParams;
  "POST /v1/refunds": Stripe.RefundCreateParams;
  "GET /v1/refunds/{id}": Stripe.RefundRetrieveParams;

  "GET /v1/subscription_items": Stripe.SubscriptionItemListParams;
  "POST /v1/subscription_items": Stripe.SubscriptionItemCreateParams;
  "GET /v1/subscription_items/{id}": Stripe.SubscriptionItemRetrieveParams;
  "POST /v1/subscription_items/{id}": Stripe.SubscriptionItemUpdateParams;
  "DELETE /v1/subscription_items/{id}": Stripe.SubscriptionItemDeleteParams;

  "POST /v1/subscription_schedules": Stripe.SubscriptionScheduleCreateParams;
  "GET /v1/subscription_schedules/{id}": Stripe.SubscriptionScheduleRetrieveParams;
  "POST /v1/subscription_schedules/{id}": Stripe.SubscriptionScheduleUpdateParams;
  "POST /v1/subscription_schedules/{id}/release": Stripe.SubscriptionScheduleReleaseParams;

  "GET /v1/subscriptions": Stripe.SubscriptionListParams;
  "POST /v1/subscriptions": Stripe.SubscriptionCreateParams;
  "GET /v1/subscriptions/{id}": Stripe.SubscriptionRetrieveParams;
  "POST /v1/subscriptions/{id}": Stripe.SubscriptionUpdateParams;
  "DELETE /v1/subscriptions/{id}": Stripe.SubscriptionCancelParams;
  "DELETE /v1/subscriptions/{id}/discount": Stripe.SubscriptionDeleteDiscountParams;

  "GET /v1/webhook_endpoints": Stripe.WebhookEndpointListParams;
  "POST /v1/webhook_endpoints": Stripe.WebhookEndpointCreateParams;
  "GET /v1/webhook_endpoints/{id}": Stripe.WebhookEndpointRetrieveParams;
  "POST /v1/webhook_endpoints/{id}": Stripe.WebhookEndpointUpdateParams;
  "DELETE /v1/webhook_endpoints/{id}": Stripe.WebhookEndpointDeleteParams;
};
