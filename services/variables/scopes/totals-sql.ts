// Statements on the revisions of scopes and on the sums that bound the size of the sets below them.
import { type Db, many, one } from "../../kit/postgres/db.ts";
import { KEPT_REVISIONS } from "./changes-sql.ts";
import type { ScopeRow } from "./sql.ts";

/** Sets the revision of a scope and recomputes its totals. Returns how many variables it has. */
export async function updateScopeTotals(db: Db, scopeId: string, revision: number): Promise<number> {
  const found = await one<{ variables: number }>(
    db,
    "scope_update_totals",
    `update scopes set revision = $2, (variables, bytes, refs, widest) = (
       select count(*), coalesce(sum(length(name) + size), 0), count(*) - count(sealed), coalesce(max(size), 0)
       from variables where scope_id = $1)
     where id = $1 returning variables`,
    [scopeId, revision],
  );
  return found!.variables;
}

/** The most that a write adds to each resolved set below its scope. */
export type Growth = { bytes: number; refs: number; widest: number };

/**
 * Lists the resolved sets below a scope that may be larger than `limit` bytes after a write: those of its
 * services, and those that a new service of each environment or project would get. The bound counts every
 * row as if nothing shadowed it, and every alias and connection as the largest value of the chain.
 */
export function listSetsOver(db: Db, scopeId: string, growth: Growth, limit: number) {
  return many<Pick<ScopeRow, "projectId" | "environmentId" | "serviceId"> & { serviceName: string | null }>(
    db,
    "sets_over",
    `with leaf as (
       select * from scopes where id = $1
       union all select * from scopes where parent_id = $1 and deleted_at is null
       union all select c.* from scopes m join scopes c on c.parent_id = m.id and c.deleted_at is null
         where m.parent_id = $1 and m.deleted_at is null
     )
     select coalesce(top.id, mid.id, leaf.id) as "projectId",
       case leaf.kind when 'service' then mid.id when 'environment' then leaf.id end as "environmentId",
       case leaf.kind when 'service' then leaf.id end as "serviceId", leaf.name as "serviceName"
     from leaf left join scopes mid on mid.id = leaf.parent_id left join scopes top on top.id = mid.parent_id
     where (leaf.kind <> 'service' or leaf.type in ('web', 'worker', 'cron'))
     and $2 + leaf.bytes + coalesce(mid.bytes, 0) + coalesce(top.bytes, 0)
       + ($3 + leaf.refs + coalesce(mid.refs, 0) + coalesce(top.refs, 0))::bigint
       * greatest($4, leaf.widest, mid.widest, top.widest, leaf.widest_key, mid.widest_key) > $5`,
    [scopeId, growth.bytes, growth.refs, growth.widest, limit],
  );
}

/**
 * Raises the revision of an environment whose services changed, and records that: with the service that connections may
 * resolve to from now on, which is new, has another name, or other keys. Returns undefined when it is deleted.
 */
export async function bumpEnvironmentRevision(
  db: Db,
  id: string,
  serviceId?: string,
): Promise<number | undefined> {
  const updated = await one<{ revision: number }>(
    db,
    "environment_bump_revision",
    `with bumped as (
       update scopes set revision = revision + 1, widest_key = (
         select coalesce(max(k.size), 0) from scopes s join addon_keys k on k.service_id = s.id
         where s.parent_id = $1 and s.deleted_at is null)
       where id = $1 and deleted_at is null returning revision),
     pruned as (delete from changes c using bumped b where c.scope_id = $1 and c.revision <= b.revision - ${KEPT_REVISIONS}),
     recorded as (
       insert into changes (scope_id, revision, addons) select $1, revision, array_remove(array[$2::text], null) from bumped)
     select revision from bumped`,
    [id, serviceId],
  );
  return updated?.revision;
}
