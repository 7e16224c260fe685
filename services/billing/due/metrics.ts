import { Counter } from "prom-client";
import type { Pool } from "../../kit/postgres/db.ts";
import { createReadGauge } from "../../kit/telemetry.ts";
import { longestDue } from "./sql.ts";

/** Reads of customers from the payment provider. */
export const customerReads = new Counter({
  name: "berth_stripe_customer_reads_total",
  help: "Customers read from Stripe by outcome: done, failed (tried again), passed_over (not this installation's)",
  labelNames: ["outcome"],
});

for (const outcome of ["done", "failed", "passed_over"]) customerReads.inc({ outcome }, 0);

const watch = createReadGauge({
  name: "berth_stripe_mirror_lag_seconds",
  help: "How long the customer waits whose changes at Stripe are not recorded yet; grows while Stripe is away",
});

/** Reports how far what is recorded lags behind the payment provider. */
export const watchLag = (pool: Pool) => watch(() => longestDue(pool));
