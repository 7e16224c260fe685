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
  does: "Reports accounts whose use has come to a share of their plan that they are told of.",
  everyMs: 1_000,
  atOnce: true,
});

export const READ_CUSTOMERS = defineTask({
  name: "read-customers",
  does: "Reads the customers anew of whom Stripe told a change, and those that could not be read.",
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
  does: "Carries cancellations on that were left by a process that ended, or by an outage of Stripe.",
  everyMs: 1_000,
  where: STRIPE,
});

export const RECONCILE = defineTask({
  name: "reconcile",
  does: "Finds what webhooks did not tell: every 15 minutes missed events, every night changed customers.",
  everyMs: 1_000,
  atOnce: true,
  where: STRIPE,
});

export const REPORT_PERIODS = defineTask({
  name: "report-periods",
  does: "Reports to Stripe what compute has come to, and compares invoices with it.",
  everyMs: 1_000,
  atOnce: true,
  where: STRIPE,
});

/** What is logged of a failure at the provider: its errors quote requests, and so what users entered. */
export const toCause = (error: unknown) => ({ cause: causeOf(error) });
