import type { Pool } from "../services/kit/postgres/db.ts";
import type { Next } from "../services/kit/tasks/task.ts";
import { sweepIdempotent, sweepRateCounts } from "./limits/sql.ts";
import { sweepConfirmations } from "./mcp/sql.ts";
import { deleteExpiredSlots } from "./streams/sql.ts";

/** The maximum number of rows that one statement deletes, so that none holds locks for long. */
const BATCH = 5_000;

/** Deletes what has expired. Returns whether there is more. */
export async function sweep(pool: Pool): Promise<Next> {
  await sweepRateCounts(pool);
  await deleteExpiredSlots(pool);
  const deleted = [await sweepIdempotent(pool, BATCH), await sweepConfirmations(pool, BATCH)];
  return deleted.includes(BATCH) ? "more" : undefined;
}
