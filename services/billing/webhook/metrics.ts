import { Counter } from "prom-client";
import type { Pool } from "../../kit/postgres/db.ts";
import { createReadGauge } from "../../kit/telemetry.ts";
import { longestDue } from "../due/sql.ts";

/** Webhooks of the payment provider. */
export const webhooks = new Counter({
  name: "berth_stripe_webhooks_total",
  help: "Webhooks of Stripe by outcome: stored, known, refused (signature), passed_over (the other mode), other_installation",
  labelNames: ["outcome"],
});

/** Reads of customers from the payment provider. */
export const customerReads = new Counter({
  name: "berth_stripe_customer_reads_total",
  help: "Customers read from Stripe by outcome: done, failed (tried again), passed_over (not this installation's)",
  labelNames: ["outcome"],
});

/** Events that only the reconciler saw. */
export const missedEvents = new Counter({
  name: "berth_stripe_missed_events_total",
  help: "Events of Stripe of which no webhook had arrived after five minutes",
});

for (const outcome of ["stored", "known", "refused", "passed_over", "other_installation"])
  webhooks.inc({ outcome }, 0);
for (const outcome of ["done", "failed", "passed_over"]) customerReads.inc({ outcome }, 0);

const watch = createReadGauge({
  name: "berth_stripe_mirror_lag_seconds",
  help: "How long the customer waits whose changes at Stripe are not recorded yet; grows while Stripe is away",
});

/** Reports how far what is recorded lags behind the payment provider. */
export const watchLag = (pool: Pool) => watch(() => longestDue(pool));
