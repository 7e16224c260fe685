import type { Pool } from "../../../kit/postgres/db.ts";
import type { IdentityProvider } from "../port.ts";
import { deleteMarked, listMarked, markIdle, markNeverAuthorized } from "./sql.ts";

const BATCH = 500;

/**
 * Deletes clients that no user authorized within a day, those without a grant that used no token for 90 days, and those
 * that registrations evicted; at the provider first, so that after a crash the rest is found by its row.
 */
export async function sweepClients(
  { pool, provider }: { pool: Pool; provider: Pick<IdentityProvider, "deleteClient"> },
  now: Date,
): Promise<void> {
  while ((await markNeverAuthorized(pool, BATCH, now)) === BATCH);
  while ((await markIdle(pool, BATCH, now)) === BATCH);
  let marked: string[];
  do {
    marked = await listMarked(pool, BATCH);
    for (const id of marked) await provider.deleteClient(id);
    await deleteMarked(pool, marked);
  } while (marked.length === BATCH);
}
