import type { Pool } from "../../kit/postgres/db.ts";
import { createReadGauge } from "../../kit/telemetry.ts";
import { countUnanswered } from "./sql.ts";

const watch = createReadGauge({
  name: "berth_stripe_disputes_unanswered",
  help: "Disputes and inquiries of payers' banks that wait for an answer of the operator",
});

/** Reports how many disputes wait for the operator. */
export const watchDisputes = (pool: Pool) => watch(() => countUnanswered(pool));
