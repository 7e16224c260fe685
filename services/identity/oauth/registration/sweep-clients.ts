import type { Pool } from "../../../kit/postgres/db.ts";
import type { IdentityProvider } from "../port.ts";
import { deleteMarked, listMarked, markIdle, markNeverAuthorized, postponeMarked } from "./sql.ts";

const BATCH = 500;
/** With so many failures the provider is away, or each would wait for its timeout. */
const MOST_FAILURES = 10;

/**
 * Deletes clients that no user authorized within a day, those without a grant that used no token for 90 days, and those
 * that registrations evicted; at the provider first, so that after a crash the rest is found by its row. One that the
 * provider does not delete waits behind the others; in the end throws the first failure.
 */
export async function sweepClients(
  { pool, provider }: { pool: Pool; provider: Pick<IdentityProvider, "deleteClient"> },
  now: Date,
): Promise<void> {
  while ((await markNeverAuthorized(pool, BATCH, now)) === BATCH);
  while ((await markIdle(pool, BATCH, now)) === BATCH);
  const failed = new Map<string, unknown>();
  let marked: string[];
  do {
    marked = await listMarked(pool, [...failed.keys()], BATCH);
    const deleted: string[] = [];
    for (const id of marked) {
      if (failed.size === MOST_FAILURES) break;
      await provider.deleteClient(id).then(
        () => deleted.push(id),
        (error) => failed.set(id, error),
      );
      // Those that were marked by this sweep come first, too.
      if (failed.has(id)) await postponeMarked(pool, id, new Date(now.getTime() + 1));
    }
    await deleteMarked(pool, deleted);
  } while (marked.length === BATCH && failed.size < MOST_FAILURES);
  for (const error of failed.values()) throw error;
}
