/**
 * The events of the payment provider that change what Berth records, in lists of at most 20: as many types as one
 * request takes. An event is only a reason to read its customer anew.
 */
export const EVENT_TYPES = [
  [
    "customer.updated",
    "customer.deleted",
    "customer.subscription.created",
    "customer.subscription.updated",
    "customer.subscription.deleted",
    "customer.subscription.paused",
    "customer.subscription.resumed",
    "customer.discount.created",
    "customer.discount.deleted",
    "checkout.session.completed",
    "checkout.session.async_payment_succeeded",
    "checkout.session.async_payment_failed",
    "checkout.session.expired",
    "payment_method.attached",
    "payment_method.updated",
    "payment_method.automatically_updated",
    "payment_method.detached",
  ],
  [
    "invoice.created",
    "invoice.updated",
    "invoice.finalized",
    "invoice.finalization_failed",
    "invoice.paid",
    "invoice.payment_failed",
    "invoice.payment_action_required",
    "invoice.voided",
    "invoice.marked_uncollectible",
    "credit_note.created",
    "refund.created",
    "refund.updated",
    "refund.failed",
    "charge.dispute.created",
  ],
] as const;
