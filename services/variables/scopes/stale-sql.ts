// Statements on stale scopes: a deletion, a new name or a `config.env` was announced and its event has not arrived. The
// table `doubts` and the column `doubted` keep their names, because the previous version reads them (CONTRIBUTING.md).
import { execute, many, type Pool, type Tx } from "../../kit/postgres/db.ts";

/** How long after its announcement a change may still be under way. */
const PENDING = "interval '2 minutes'";

/** Marks a scope stale, also one that is not known yet. */
export async function markStale(pool: Pool, scopeId: string): Promise<void> {
  // A trigger marks the scope's own row.
  await execute(
    pool,
    "stale_insert",
    "insert into doubts (scope_id) values ($1) on conflict (scope_id) do update set at = now()",
    [scopeId],
  );
  // The trigger does not see a scope that is being inserted; whoever finds that one from now on finds its mark here.
  await execute(pool, "stale_mark", "update scopes set doubted = true where id = $1 and not doubted", [
    scopeId,
  ]);
}

/**
 * Unmarks those of the scopes whose announced change did not happen: they still exist long after. Locks them first, so that
 * an announcement made meanwhile marks them again.
 */
export async function unmarkStale(tx: Tx, scopeIds: string[]): Promise<void> {
  const expired = await many<{ id: string }>(
    tx,
    "stale_lock",
    `select id from scopes s where id = any($1)
       and exists (select from doubts where scope_id = s.id and at < now() - ${PENDING})
     for no key update`,
    [scopeIds],
  );
  if (expired.length === 0) return;
  const ids = expired.map(({ id }) => id);
  const text = `delete from doubts where scope_id = any($1) and at < now() - ${PENDING}`;
  await execute(tx, "stale_delete", text, [ids]);
  await execute(
    tx,
    "stale_unmark",
    `update scopes s set doubted = false
     where id = any($1) and not exists (select from doubts where scope_id = s.id)`,
    [ids],
  );
}
