import { type Db, execute } from "../../kit/postgres/db.ts";
import { notifyReconcilers } from "../due/sql.ts";
import { TIMEOUTS } from "../terms/timeouts.ts";

const SCOPE_COLUMNS = { project: "project_id", environment: "environment_id", service: "id" };

/** Whether a scope of variables is one that services are under. */
export function isScope(scope: string): scope is keyof typeof SCOPE_COLUMNS {
  return Object.hasOwn(SCOPE_COLUMNS, scope);
}

/**
 * Has the web services under a scope that has another name applied again, so that their addresses follow. The next
 * revision keeps a process that has read the former name from applying it after this: also one that was not deployed yet
 * when this began to wait for locks.
 */
export async function moveAddresses(
  db: Db,
  scope: keyof typeof SCOPE_COLUMNS,
  scopeId: string,
): Promise<void> {
  await execute(
    db,
    `service_move_${scope}`,
    `with held as (
       select id from services where ${SCOPE_COLUMNS[scope]} = $1 and type = 'web' and deleting_at is null
       order by id for no key update)
     update services set variables_revision = variables_revision + 1 where id in (select id from held)`,
    [scopeId],
  );
  await markDirty(db, scope, scopeId);
}

/**
 * Marks the services under a scope whose variables may have changed: they compare them once changes pause. A service
 * that was never deployed is marked too: its first deployment may be about to be accepted, or applied, with the old ones.
 */
export async function markDirty(db: Db, scope: keyof typeof SCOPE_COLUMNS, scopeId: string): Promise<void> {
  await execute(
    db,
    `service_dirty_${scope}`,
    `with dirty as (
       update services set dirty_at = clock_timestamp(), dirty_since = coalesce(dirty_since, clock_timestamp())
       where ${SCOPE_COLUMNS[scope]} = $1 and type in ('web', 'worker') and deleting_at is null
       returning id)
     update work set next_at = least(next_at, now() + make_interval(secs => ${TIMEOUTS.debounceMs / 1000}))
     where service_id in (select id from dirty)`,
    [scopeId],
  );
  await notifyReconcilers(db);
}
