// Statements on the scope tree and on what addons publish; sql.ts has those on variables.
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { Scope as ScopeKind } from "../resolve/resolve.ts";

/** The ids of a path; `service` is a name. */
export type Path = {
  accountId: string;
  projectId: string;
  environmentId?: string | undefined;
  service?: string | undefined;
};

/** The scopes of a path as far as they exist. */
export type PathRow = {
  accountId: string;
  projectId: string;
  projectRevision: number;
  environmentId: string | null;
  environmentRevision: number | null;
  serviceId: string | null;
  serviceRevision: number | null;
  serviceType: string | null;
  /** A deletion of one of them was announced. */
  doubted: boolean;
};

const PATH = `p.account_id as "accountId", p.id as "projectId", p.revision as "projectRevision",
  e.id as "environmentId", e.revision as "environmentRevision",
  s.id as "serviceId", s.revision as "serviceRevision", s.type as "serviceType",
  exists (select from doubts d where d.scope_id in (p.id, e.id, s.id)) as doubted`;

export function scopesOfPath(db: Db, path: Path) {
  return one<PathRow>(
    db,
    "scopes_of_path",
    `select ${PATH} from scopes p
     left join scopes e on e.id = $3 and e.parent_id = p.id and e.deleted_at is null
     left join scopes s on s.parent_id = e.id and s.name = $4 and s.deleted_at is null
     where p.id = $2 and p.account_id = $1 and p.kind = 'project' and p.deleted_at is null`,
    [path.accountId, path.projectId, path.environmentId, path.service],
  );
}

export function scopesOfService(db: Db, serviceId: string) {
  return one<PathRow>(
    db,
    "scopes_of_service",
    `select ${PATH} from scopes s
     join scopes e on e.id = s.parent_id and e.deleted_at is null
     join scopes p on p.id = e.parent_id and p.deleted_at is null
     where s.id = $1 and s.kind = 'service' and s.deleted_at is null`,
    [serviceId],
  );
}

/** How long after its announcement a deletion may still be under way. */
const DOUBT = "interval '2 minutes'";

/** Notes that a scope may be deleted from now on, whoever has heard of it. */
export function doubt(db: Db, scopeId: string) {
  return execute(
    db,
    "doubt",
    "insert into doubts (scope_id) values ($1) on conflict (scope_id) do update set at = now()",
    [scopeId],
  );
}

/** Forgets announcements of deletions that did not happen: the scopes are there, long after. */
export function endDoubts(db: Db, scopeIds: string[]) {
  return execute(db, "doubts_end", `delete from doubts where scope_id = any($1) and at < now() - ${DOUBT}`, [
    scopeIds,
  ]);
}

/**
 * Takes the lock under which everything in a project changes, until the transaction ends. False when
 * the project is unknown or deleted.
 */
export async function lockProject(db: Db, projectId: string): Promise<boolean> {
  const found = await one<{ alive: boolean }>(
    db,
    "project_lock",
    "select deleted_at is null as alive from scopes where id = $1 for no key update",
    [projectId],
  );
  return found?.alive === true;
}

export async function isAlive(db: Db, id: string): Promise<boolean> {
  const text = "select from scopes where id = $1 and deleted_at is null";
  return (await execute(db, "scope_alive", text, [id])) === 1;
}

export type NewScope = {
  id: string;
  accountId: string;
  parentId: string | null;
  kind: ScopeKind;
  name?: string;
  type?: string;
};

/** False when the scope is there, was deleted, or a newer service holds its name. */
export async function insertScope(db: Db, scope: NewScope): Promise<boolean> {
  const added = await execute(
    db,
    "scope_insert",
    `insert into scopes (id, account_id, parent_id, kind, name, type) values ($1, $2, $3, $4, $5, $6)
     on conflict do nothing`,
    [scope.id, scope.accountId, scope.parentId, scope.kind, scope.name, scope.type],
  );
  return added === 1;
}

/** Services that held a name before the given one was made. */
export async function olderNamesakes(db: Db, service: { id: string; environmentId: string; name: string }) {
  const found = await many<{ id: string }>(
    db,
    "scope_namesakes",
    "select id from scopes where parent_id = $1 and name = $2 and id < $3 and deleted_at is null",
    [service.environmentId, service.name, service.id],
  );
  return found.map(({ id }) => id);
}

/** Marks a scope deleted, also one that was never heard of. */
export function insertTombstone(db: Db, scope: NewScope) {
  return execute(
    db,
    "scope_tombstone",
    `insert into scopes (id, account_id, parent_id, kind, deleted_at) values ($1, $2, $3, $4, now())
     on conflict (id) do nothing`,
    [scope.id, scope.accountId, scope.parentId, scope.kind],
  );
}

/** Deletes a scope and all below it with their variables and keys; gives how many addon keys went. */
export async function buryTree(db: Db, id: string): Promise<number> {
  const gone = await one<{ keys: number }>(
    db,
    "scope_bury",
    `with tree as (
       select $1::text as id
       union all select id from scopes where parent_id = $1 and deleted_at is null
       union all select c.id from scopes m join scopes c on c.parent_id = m.id and c.deleted_at is null
         where m.parent_id = $1 and m.deleted_at is null
     ), buried as (
       update scopes set deleted_at = coalesce(deleted_at, now()), ready = false where id in (select id from tree)
     ), emptied as (
       delete from variables where scope_id in (select id from tree)
     ), certain as (
       delete from doubts where scope_id in (select id from tree)
     ), withdrawn as (
       delete from addon_keys where service_id in (select id from tree) returning 1
     ) select count(*)::int as keys from withdrawn`,
    [id],
  );
  return gone?.keys ?? 0;
}

/** Raises the revision of an environment whose services or addon keys changed; undefined when it is gone. */
export async function touchEnvironment(db: Db, id: string): Promise<number | undefined> {
  const touched = await one<{ revision: number }>(
    db,
    "environment_touch",
    `update scopes set revision = revision + 1, widest_key = (
       select coalesce(max(k.size), 0) from scopes s join addon_keys k on k.service_id = s.id
       where s.parent_id = $1 and s.deleted_at is null)
     where id = $1 and deleted_at is null returning revision`,
    [id],
  );
  return touched?.revision;
}

/** Which of the names are services of the environment. */
export async function knownServices(db: Db, environmentId: string, names: string[]): Promise<Set<string>> {
  const found = await many<{ name: string }>(
    db,
    "services_known",
    "select name from scopes where parent_id = $1 and name = any($2) and deleted_at is null",
    [environmentId, names],
  );
  return new Set(found.map(({ name }) => name));
}

/** Remembers that an addon published this revision; false when it is not newer than what is known. */
export async function markPublished(
  db: Db,
  addon: { serviceId: string; ready: boolean; revision: number },
): Promise<boolean> {
  const changed = await execute(
    db,
    "addon_published",
    `update scopes set ready = $2, keys_revision = $3
     where id = $1 and deleted_at is null and (keys_revision < $3 or (keys_revision = $3 and ready <> $2))`,
    [addon.serviceId, addon.ready, addon.revision],
  );
  return changed === 1;
}

export type KeyRow = { key: string; sensitive: boolean; sealed: Buffer; size: number };

/** Replaces all keys of an addon. */
export async function replaceKeys(db: Db, serviceId: string, keys: KeyRow[]): Promise<void> {
  await execute(
    db,
    "addon_keys_replace",
    `with old as (delete from addon_keys where service_id = $1 and key <> all($2::text[]))
     insert into addon_keys (service_id, key, sensitive, sealed, size)
     select $1, * from unnest($2::text[], $3::bool[], $4::bytea[], $5::int[])
     on conflict (service_id, key) do update
       set sensitive = excluded.sensitive, sealed = excluded.sealed, size = excluded.size`,
    [
      serviceId,
      keys.map((row) => row.key),
      keys.map((row) => row.sensitive),
      keys.map((row) => row.sealed),
      keys.map((row) => row.size),
    ],
  );
}

/** A service of an environment as connections see it, once for each key it has published. */
export type AddonRow = {
  environmentId: string;
  name: string;
  serviceId: string;
  type: "web" | "worker" | "postgres" | "redis";
  ready: boolean;
  key: string | null;
  sensitive: boolean | null;
  size: number | null;
  sealed: Buffer | null;
};

/** The named services of environments, with their keys. */
export function addonRows(db: Db, environmentIds: string[], names: string[]) {
  return many<AddonRow>(
    db,
    "addon_rows",
    `select s.parent_id as "environmentId", s.name, s.id as "serviceId", s.type, s.ready,
       k.key, k.sensitive, k.size, k.sealed
     from scopes s left join addon_keys k on k.service_id = s.id
     where s.parent_id = any($1) and s.name = any($2) and s.deleted_at is null`,
    [environmentIds, names],
  );
}

export type ImpactRow = { id: string; name: string; environmentId: string; total: number };

/** A web or worker service, as the deployer tells it. */
export type Neighbour = { id: string; name: string; environmentId: string };

/**
 * Those of the services below a scope that resolve one of the names to its variable, as no nearer scope has the
 * name. At most `limit` of them, newest first; `total` counts all.
 */
export function impactRows(
  db: Db,
  scopeId: string,
  names: string[],
  services: Neighbour[],
  limit: number | null,
) {
  return many<ImpactRow>(
    db,
    "scope_impact",
    `select s.id, s.name, s.environment_id as "environmentId", count(*) over ()::int as total
     from unnest($3::text[], $4::text[], $5::text[]) as s (id, name, environment_id)
     where exists (select from variables v where v.scope_id = $1 and v.name = any($2) and not exists (
       select from variables nearer where nearer.name = v.name
       and (nearer.scope_id = s.id or (nearer.scope_id = s.environment_id and s.environment_id <> $1))))
     order by s.id desc limit $6`,
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
