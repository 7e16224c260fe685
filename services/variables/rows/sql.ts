// Statements on the table `variables`.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import type { ServiceRef } from "../scopes/sql.ts";

/** A variable as a write stores it, without its scope: literals have `sealed` and the size of their value. */
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

type Stored = { revision: number; createdAt: Timestamp; updatedAt: Timestamp };
/** A stored variable with its sealed value, and without. */
export type SealedVariable = NewVariable & Stored;
export type StoredVariable = Omit<SealedVariable, "sealed" | "size">;

const STORED = `id, name, revision, sensitive, connection_service as "connectionService",
  connection_key as "connectionKey", alias_target as "aliasTarget",
  created_at as "createdAt", updated_at as "updatedAt"`;

/** Lists the variables of a scope, newest first, with the sealed values of those that are not sensitive. */
export function listVariables(db: Db, scopeId: string, page: { before?: string | undefined; limit: number }) {
  return many<SealedVariable>(
    db,
    "variables_list",
    `select ${STORED}, size, case when not sensitive then sealed end as sealed from variables
     where scope_id = $1 and ${isBelow("id", "$2")} order by id desc limit $3`,
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
export type Replaced = Pick<NewVariable, "id" | "name" | "size" | "sensitive"> & { literal: boolean };

export function listReplaced(db: Db, scopeId: string, names: string[]) {
  return many<Replaced>(
    db,
    "variables_replaced",
    `select id, name, size, sensitive, sealed is not null as literal from variables
     where scope_id = $1 and name = any($2)`,
    [scopeId, names],
  );
}

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

/**
 * Lists which of the services below a scope resolve one of the names to its variable, because no nearer scope has
 * the name. At most `limit` of them, newest first; `total` counts all. The rows that shadow are counted by environment and
 * by service: 10 000 services times the 1000 names of their environment are ten million.
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
     nearer as materialized (
       select scope_id, name from variables where name in (select name from own) and scope_id in
         (select id from under union select environment_id from under where environment_id <> $1)),
     hidden as (
       select n.scope_id, count(*) from nearer n left join under u on u.id = n.scope_id
         left join nearer e on e.scope_id = u.environment_id and e.name = n.name
       where e.name is null group by n.scope_id)
     select u.id, u.name, u.environment_id as "environmentId", count(*) over ()::int as total
     from under u left join hidden s on s.scope_id = u.id left join hidden e on e.scope_id = u.environment_id
     where coalesce(s.count, 0) + coalesce(e.count, 0) < (select count(*) from own)
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

/** A row of a scope chain, as resolution reads it. */
export type ChainRow = Omit<NewVariable, "sealed"> & { scopeId: string };

const CHAIN = `id, name, scope_id as "scopeId", sensitive, size, connection_service as "connectionService",
  connection_key as "connectionKey", alias_target as "aliasTarget"`;

/** Lists all rows of scopes, without values. */
export function listChainRows(db: Db, scopeIds: string[]) {
  const text = `select ${CHAIN} from variables where scope_id = any($1)`;
  return many<ChainRow>(db, "chain_rows", text, [scopeIds]);
}

/** Lists all rows of scopes with their sealed values; those of sensitive rows only when `sensitive`. */
export function listSealedChainRows(db: Db, scopeIds: string[], sensitive: boolean) {
  return many<ChainRow & { sealed: Buffer | null }>(
    db,
    "chain_rows_sealed",
    `select ${CHAIN}, case when $2 or not sensitive then sealed end as sealed from variables
     where scope_id = any($1)`,
    [scopeIds, sensitive],
  );
}
