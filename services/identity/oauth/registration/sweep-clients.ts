import type { Pool } from "../../../kit/postgres/db.ts";
import type { IdentityProvider } from "../port.ts";
import { deleteMarked, listMarked, markIdle, markNeverAuthorized } from "./sql.ts";

const BATCH = 500;

/**
 * Deletes clients that nobody let in within a day, those that have no grant and got no token for 90 days, and those that
 * registrations pushed out; at the provider first, so that what a crash leaves here is found again.
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
