// The statement that reads scopes for those who follow resolved sets.
import { type Db, many } from "../../kit/postgres/db.ts";
import type { ChainRow } from "../rows/sql.ts";

/**
 * A scope as it is now, `of: "scope"`, then each variable of it that may have changed, `of: "variable"`. `names` are those
 * that changed since the known revision; null where that is unknown, and all its variables follow.
 */
export type FollowedRow =
  | {
      of: "scope";
      scopeId: string;
      revision: number;
      alive: boolean;
      configEnvAt: string | null;
      names: string[] | null;
      addons: string[];
    }
  | ({ of: "variable"; sealed: Buffer | null } & ChainRow);

/**
 * Reads scopes, each after a revision that is known, in one snapshot: the variables of a batch change together. The sealed
 * values of sensitive variables are left out.
 */
export function readFollowed(db: Db, scopes: { id: string; revision: number }[]) {
  return many<FollowedRow>(
    db,
    "followed_read",
    `with known as materialized (
       select s.id, s.revision, s.deleted_at is null as alive, s.config_env_at::text as at, c.names, c.addons
       from unnest($1::text[], $2::bigint[]) as f (id, revision) join scopes s on s.id = f.id
       cross join lateral (
         select case when count(*) = s.revision - f.revision then
             array(select distinct n from changes o, unnest(o.names) n where o.scope_id = s.id and o.revision > f.revision)
           end as names,
           array(select distinct a from changes o, unnest(o.addons) a where o.scope_id = s.id and o.revision > f.revision)
             as addons
         from changes c where c.scope_id = s.id and c.revision > f.revision
       ) c)
     select 'scope' as of, id as "scopeId", revision, alive, at as "configEnvAt", names, addons,
       null as id, null as name, null::bool as sensitive, null::int as size, null as "connectionService",
       null as "connectionKey", null as "aliasTarget", null::bytea as sealed
     from known
     union all
     select 'variable', k.id, null, null, null, null, null, v.id, v.name, v.sensitive, v.size, v.connection_service,
       v.connection_key, v.alias_target, case when not v.sensitive then v.sealed end
     from known k join variables v on v.scope_id = k.id and (k.names is null or v.name = any(k.names))`,
    [scopes.map(({ id }) => id), scopes.map(({ revision }) => revision)],
  );
}
