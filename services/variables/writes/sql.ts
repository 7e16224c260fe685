// Statements on the variables of one scope.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { ScopeRow, ServiceRef } from "../scopes/sql.ts";

/** A variable without its scope and value. */
export type StoredVariable = {
  id: string;
  name: string;
  revision: number;
  sensitive: boolean;
  connectionService: string | null;
  connectionKey: string | null;
  aliasTarget: string | null;
  createdAt: Timestamp;
  updatedAt: Timestamp;
};

export type SealedVariable = StoredVariable & { sealed: Buffer | null; size: number };

const STORED = `id, name, revision, sensitive, connection_service as "connectionService",
  connection_key as "connectionKey", alias_target as "aliasTarget",
  created_at as "createdAt", updated_at as "updatedAt"`;

/** Lists the variables of a scope, newest first, with the sealed values of those that are not sensitive. */
export function listVariables(db: Db, scopeId: string, page: { before?: string | undefined; limit: number }) {
  return many<SealedVariable>(
    db,
    "variables_list",
    `select ${STORED}, size, case when not sensitive then sealed end as sealed from variables
     where scope_id = $1 and ($2::text is null or id < $2) order by id desc limit $3`,
    [scopeId, page.before, page.limit],
  );
}

export function findVariable(db: Db, scopeId: string, name: string) {
  return one<SealedVariable>(
    db,
    "variable_find",
    `select ${STORED}, size, sealed from variables where scope_id = $1 and name = $2`,
    [scopeId, name],
  );
}

/** What a write needs to know of a row that it replaces. */
export type Replaced = { id: string; name: string; size: number; sensitive: boolean; literal: boolean };

export function listReplaced(db: Db, scopeId: string, names: string[]) {
  return many<Replaced>(
    db,
    "variables_replaced",
    `select id, name, size, sensitive, sealed is not null as literal from variables
     where scope_id = $1 and name = any($2)`,
    [scopeId, names],
  );
}

/** A row as a write stores it. */
export type NewVariable = {
  id: string;
  name: string;
  sensitive: boolean;
  sealed: Buffer | null;
  size: number;
  connectionService: string | null;
  connectionKey: string | null;
  aliasTarget: string | null;
};

// `unnest` fills shorter lists with nulls, so a column of nulls need not be sent.
const unlessAllNull = (list: (string | null)[]) => (list.every((one) => one === null) ? [] : list);

/** Creates or overwrites rows of a scope; an overwritten row keeps its id. */
export function upsertVariables(db: Db, scopeId: string, revision: number, list: NewVariable[]) {
  return many<StoredVariable>(
    db,
    "variables_upsert",
    `insert into variables (scope_id, revision, id, name, sensitive, sealed, size, connection_service,
       connection_key, alias_target)
     select $1, $2, * from unnest($3::text[], $4::text[], $5::bool[], $6::bytea[], $7::int[], $8::text[],
       $9::text[], $10::text[])
     on conflict (scope_id, name) do update set revision = excluded.revision,
       sensitive = excluded.sensitive, sealed = excluded.sealed, size = excluded.size,
       connection_service = excluded.connection_service, connection_key = excluded.connection_key,
       alias_target = excluded.alias_target, updated_at = excluded.updated_at
     returning ${STORED}`,
    [
      scopeId,
      revision,
      list.map((row) => row.id),
      list.map((row) => row.name),
      list.map((row) => row.sensitive),
      list.map((row) => row.sealed),
      list.map((row) => row.size),
      unlessAllNull(list.map((row) => row.connectionService)),
      unlessAllNull(list.map((row) => row.connectionKey)),
      unlessAllNull(list.map((row) => row.aliasTarget)),
    ],
  );
}

export function deleteVariables(db: Db, scopeId: string, names: string[]) {
  return execute(db, "variables_delete", "delete from variables where scope_id = $1 and name = any($2)", [
    scopeId,
    names,
  ]);
}

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
 * row as if nothing shadowed it, and every alias and connection as the largest value in reach.
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
     where (leaf.kind <> 'service' or leaf.type in ('web', 'worker'))
     and $2 + leaf.bytes + coalesce(mid.bytes, 0) + coalesce(top.bytes, 0)
       + ($3 + leaf.refs + coalesce(mid.refs, 0) + coalesce(top.refs, 0))::bigint
       * greatest($4, leaf.widest, mid.widest, top.widest, leaf.widest_key, mid.widest_key) > $5`,
    [scopeId, growth.bytes, growth.refs, growth.widest, limit],
  );
}

/**
 * Lists which of the services below a scope resolve one of the names to its variable, because no nearer scope has
 * the name. At most `limit` of them, newest first; `total` counts all. What hides the names is counted at once: to look for
 * each name at each service takes 260 ms for 500 names and 100 services.
 */
export function listImpact(
  db: Db,
  scopeId: string,
  names: string[],
  services: ServiceRef[],
  limit: number | null,
) {
  return many<ServiceRef & { total: number }>(
    db,
    "scope_impact",
    `with own as materialized (select name from variables where scope_id = $1 and name = any($2)),
     under as materialized (select * from unnest($3::text[], $4::text[], $5::text[]) as u (id, name, environment_id)),
     hidden as (
       select id, count(*) from (
         select u.id, v.name from under u join variables v on v.scope_id = u.id
         union select u.id, v.name from under u
           join variables v on v.scope_id = u.environment_id and u.environment_id <> $1
       ) as nearer join own using (name) group by id)
     select u.id, u.name, u.environment_id as "environmentId", count(*) over ()::int as total
     from under u left join hidden h on h.id = u.id
     where coalesce(h.count, 0) < (select count(*) from own)
     order by u.id desc limit $6`,
    [
      scopeId,
      names,
      services.map((service) => service.id),
      services.map((service) => service.name),
      services.map((service) => service.environmentId),
      limit,
    ],
  );
}
