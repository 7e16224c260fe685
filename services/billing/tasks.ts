import { causeOf } from "../kit/rpc/errors.ts";
import { defineTask } from "../kit/tasks/task.ts";

const STRIPE = "billing, where Stripe is set up";

export const FREEZE_PERIODS = defineTask({
  name: "freeze-periods",
  does: "Freezes what was used in periods that are over.",
  everyMs: 1_000,
  atOnce: true,
});

export const ALERT_SPEND = defineTask({
  name: "alert-spend",
  does: "Announces accounts whose usage has reached a threshold of their plan.",
  everyMs: 1_000,
  atOnce: true,
});

export const READ_CUSTOMERS = defineTask({
  name: "read-customers",
  does: "Reads customers from Stripe that have changed, and retries those that could not be read.",
  everyMs: 1_000,
  atOnce: true,
  where: STRIPE,
});

export const RENEW_LEASES = defineTask({
  name: "renew-leases",
  does: "Prolongs the leases of the customers that are being read.",
  everyMs: 5_000,
  where: STRIPE,
});

export const CARRY_CANCELLATIONS_ON = defineTask({
  name: "carry-cancellations-on",
  does: "Resumes cancellations that a killed process or an outage of Stripe interrupted.",
  everyMs: 1_000,
  where: STRIPE,
});

export const RECONCILE = defineTask({
  name: "reconcile",
  does: "Finds what webhooks missed: events every 15 minutes, changed customers every night.",
  everyMs: 1_000,
  atOnce: true,
  where: STRIPE,
});

export const REPORT_PERIODS = defineTask({
  name: "report-periods",
  does: "Reports compute usage to Stripe, and compares invoices with it.",
  everyMs: 1_000,
  atOnce: true,
  where: STRIPE,
});

/** What is logged of a failure at the provider: its errors quote requests, and so what users entered. */
export const toCause = (error: unknown) => ({ cause: causeOf(error) });
