import type { ChangeFeed } from "../../../kit/postgres/change-feed.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { notFound, unavailable } from "../../../kit/rpc/refusals.ts";
import { findOutcome } from "./sql.ts";

/**
 * Yields the outcome of a deployment as far as it is known, first at once and then at each change under `key`. Throws
 * 404 when the deployment is deleted and 503 when `signal` aborts.
 */
export async function* observeOutcome(
  pool: Pool,
  changes: Pick<ChangeFeed, "signal">,
  key: string,
  deploymentId: string,
  signal: AbortSignal,
) {
  const changed = changes.signal(key);
  try {
    while (!signal.aborted) {
      // Read before the events that it ends, so that none follows the end.
      const outcome = await findOutcome(pool, deploymentId);
      if (!outcome) throw notFound("version");
      yield outcome;
      await changed.next(signal);
    }
  } finally {
    changed.close();
  }
  throw unavailable();
}
