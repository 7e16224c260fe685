import { type Db, execute } from "../../kit/postgres/db.ts";
import { notifyReconcilers } from "../reconcile/queue/sql.ts";
import { TIMEOUTS } from "../reconcile/timeouts.ts";

const SCOPE_COLUMNS = { project: "project_id", environment: "environment_id", service: "id" };

/** Whether a word names a scope of variables. */
export function isScope(scope: string): scope is keyof typeof SCOPE_COLUMNS {
  return Object.hasOwn(SCOPE_COLUMNS, scope);
}

/**
 * The variables under a scope may have changed: its services compare them after a quiet time. Also those
 * that were never applied, as one may be applying the old set at this moment.
 */
export async function markDirty(db: Db, scope: keyof typeof SCOPE_COLUMNS, scopeId: string): Promise<void> {
  await execute(
    db,
    `service_dirty_${scope}`,
    `with dirty as (
       update services set dirty_at = clock_timestamp(), dirty_since = coalesce(dirty_since, clock_timestamp())
       where ${SCOPE_COLUMNS[scope]} = $1 and type in ('web', 'worker') and deleting_at is null and next_version > 1
       returning id)
     update work set next_at = least(next_at, now() + make_interval(secs => ${TIMEOUTS.debounceMs / 1000}))
     where service_id in (select id from dirty)`,
    [scopeId],
  );
  await notifyReconcilers(db);
}
