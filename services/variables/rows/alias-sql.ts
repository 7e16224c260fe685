// Statements that follow aliases below a scope.
import { type Db, many, one } from "../../kit/postgres/db.ts";

/**
 * Returns the names that are on a path of aliases from a written name to a written name, ignoring shadowing, and the scopes
 * below the written one that have aliases of these names. `chain` is from the project to the written scope.
 */
export async function findCycleCandidates(db: Db, scopeId: string, chain: string[], written: string[]) {
  const found = await one<{ names: string[]; scopeIds: string[] }>(
    db,
    "alias_cycle_candidates",
    `with recursive below as materialized (
       select id from scopes where parent_id = $1 and deleted_at is null and refs > 0
       union all select c.id from scopes m join scopes c on c.parent_id = m.id and c.deleted_at is null
         where m.parent_id = $1 and m.deleted_at is null and c.refs > 0
     ), nearer as materialized (
       select v.scope_id, v.name, v.alias_target from below join variables v on v.scope_id = below.id
       where v.alias_target is not null
     ), edge as materialized (
       select name, alias_target from nearer
       union select name, alias_target from variables where scope_id = any($2) and alias_target is not null
     ), ahead as (
       select alias_target as name from variables where scope_id = $1 and name = any($3)
       union select edge.alias_target from ahead join edge using (name)
     ), back as (
       select unnest($3::text[]) as name
       union select edge.name from back join edge on edge.alias_target = back.name
     ), cycle as materialized (select name from ahead intersect select name from back)
     select array(select name from cycle) as names,
       array(select distinct scope_id from nearer join cycle using (name)) as "scopeIds"`,
    [scopeId, chain, written],
  );
  return found!;
}

/** Lists the alias targets of the variables of these names in these scopes; null for other kinds. */
export function listAliasTargets(db: Db, scopeIds: string[], names: string[]) {
  return many<{ scopeId: string; name: string; aliasTarget: string | null }>(
    db,
    "alias_targets",
    `select scope_id as "scopeId", name, alias_target as "aliasTarget" from variables
     where scope_id = any($1) and name = any($2)`,
    [scopeIds, names],
  );
}
