import { causeOf } from "../kit/failures.ts";
import { defineTask } from "../kit/tasks/task.ts";

const STRIPE = "billing, if Stripe is configured";

export const FREEZE_PERIODS = defineTask({
  name: "freeze-periods",
  does: "Freezes the usage of periods that have ended.",
  everyMs: 1_000,
  atOnce: true,
});

export const ALERT_SPEND = defineTask({
  name: "alert-spend",
  does: "Sends an alert for accounts whose usage has reached a threshold of their budget.",
  everyMs: 1_000,
  atOnce: true,
});

export const SUSPEND_SERVICES = defineTask({
  name: "suspend-services",
  does: "Begins and ends grace periods, and says whose services beyond the allowance are stopped.",
  everyMs: 1_000,
  atOnce: true,
});

export const READ_CUSTOMERS = defineTask({
  name: "read-customers",
  does: "Reads changed customers from Stripe, and retries those that could not be read.",
  everyMs: 1_000,
  atOnce: true,
  where: STRIPE,
});

export const RENEW_LEASES = defineTask({
  name: "renew-leases",
  does: "Renews the leases of the customers that are being read.",
  everyMs: 5_000,
  where: STRIPE,
});

export const RESUME_CANCELLATIONS = defineTask({
  name: "resume-cancellations",
  does: "Resumes cancellations that a crash or an outage of Stripe interrupted.",
  everyMs: 1_000,
  where: STRIPE,
});

export const RESUME_PLAN_CHANGES = defineTask({
  name: "resume-plan-changes",
  does: "Resumes changes of plans that a crash or an outage of Stripe interrupted.",
  everyMs: 1_000,
  where: STRIPE,
});

export const RECONCILE = defineTask({
  name: "reconcile",
  does: "Finds changes that webhooks missed: lists events every 15 minutes, and reads customers every night.",
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
