import { Counter } from "prom-client";

/** Webhooks of the payment provider. */
export const webhooks = new Counter({
  name: "berth_stripe_webhooks_total",
  help: "Webhooks of Stripe by outcome: stored, known, refused (signature), passed_over (the other mode), other_installation",
  labelNames: ["outcome"],
});

/** Events that only the reconciler saw. */
export const missedEvents = new Counter({
  name: "berth_stripe_missed_events_total",
  help: "Events of Stripe of which no webhook had arrived after five minutes",
});

for (const outcome of ["stored", "known", "refused", "passed_over", "other_installation"])
  webhooks.inc({ outcome }, 0);
