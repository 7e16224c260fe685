/** Subscriptions that are not over, whether they are paid or not. */
export const LIVE = ["active", "trialing", "past_due", "unpaid", "paused", "incomplete"];

/** In these the account has what it pays for; while a payment is retried, it keeps it. */
export const SUBSCRIBED = ["active", "trialing", "past_due"];

/** In these compute is billed. */
export const BILLED = ["active", "trialing"];
