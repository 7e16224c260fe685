// Statements on what changed with the last revisions of scopes.
import { type Db, execute, many } from "../../kit/postgres/db.ts";

/** How many revisions of a scope are remembered. */
export const KEPT_REVISIONS = 100;

/** Records which variables a revision of a scope wrote or removed, and forgets what is too old. */
export function recordChanges(db: Db, scopeId: string, revision: number, names: string[]) {
  return execute(
    db,
    "changes_record",
    `with pruned as (delete from changes where scope_id = $1 and revision <= $2::bigint - ${KEPT_REVISIONS})
     insert into changes (scope_id, revision, names) values ($1, $2, $3)`,
    [scopeId, revision, names],
  );
}

/** What changed in a scope between two of its revisions; `count` is of how many revisions that is known. */
export type Changes = { scopeId: string; count: number; names: string[]; addons: string[] };

/** Returns what changed in each of some scopes after one revision, up to another. */
export function listChanges(db: Db, scopes: { id: string; after: number; upTo: number }[]) {
  return many<Changes>(
    db,
    "changes_list",
    `select f.id as "scopeId",
       (select count(*)::int from changes c where c.scope_id = f.id and c.revision > f.after and c.revision <= f.up_to) as count,
       array(select distinct n from changes c, unnest(c.names) n
         where c.scope_id = f.id and c.revision > f.after and c.revision <= f.up_to) as names,
       array(select distinct a from changes c, unnest(c.addons) a
         where c.scope_id = f.id and c.revision > f.after and c.revision <= f.up_to) as addons
     from unnest($1::text[], $2::bigint[], $3::bigint[]) as f (id, after, up_to)`,
    [scopes.map(({ id }) => id), scopes.map(({ after }) => after), scopes.map(({ upTo }) => upTo)],
  );
}
