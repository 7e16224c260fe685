// Statements on the scope tree.
import { type Db, execute, many, one, type Pool } from "../../kit/postgres/db.ts";
import type { ScopeIds, ScopePath } from "./scope.ts";

/** The scopes of a path, as far as they exist. */
export type ScopeRow = {
  accountId: string;
  projectId: string;
  projectRevision: number;
  environmentId: string | null;
  environmentRevision: number | null;
  serviceId: string | null;
  serviceRevision: number | null;
  serviceType: string | null;
  mayHaveConfigEnv: boolean;
  /** A deletion, a new name or a `config.env` of one of them was announced, and its event has not arrived. */
  stale: boolean;
};

const PATH = `p.account_id as "accountId", p.id as "projectId", p.revision as "projectRevision",
  e.id as "environmentId", e.revision as "environmentRevision",
  s.id as "serviceId", s.revision as "serviceRevision", s.type as "serviceType",
  s.config_env_at is not null as "mayHaveConfigEnv",
  exists (select from doubts d where d.scope_id in (p.id, e.id, s.id)) as stale`;

export function findScopeRow(db: Db, path: ScopePath) {
  return one<ScopeRow>(
    db,
    "scope_find",
    `select ${PATH} from scopes p
     left join scopes e on e.id = $3 and e.parent_id = p.id and e.deleted_at is null
     left join scopes s on s.parent_id = e.id and s.name = $4 and s.deleted_at is null
     where p.id = $2 and p.account_id = $1 and p.kind = 'project' and p.deleted_at is null`,
    [path.accountId, path.projectId, path.environmentId, path.service],
  );
}

export function findServiceRow(db: Db, serviceId: string) {
  return one<ScopeRow>(
    db,
    "scope_find_service",
    `select ${PATH} from scopes s
     join scopes e on e.id = s.parent_id and e.deleted_at is null
     join scopes p on p.id = e.parent_id and p.deleted_at is null
     where s.id = $1 and s.kind = 'service' and s.deleted_at is null`,
    [serviceId],
  );
}

/**
 * Lists what changes of the scopes of a row, without those that are deleted or stale. With an array instead of three
 * parameters, PostgreSQL would plan it anew each time; joining `doubts` here makes a read a tenth slower.
 */
export function listRevisions(db: Db, { projectId, environmentId, serviceId }: ScopeRow) {
  return many<{ id: string; name: string | null; revision: number; mayHaveConfigEnv: boolean }>(
    db,
    "scope_revisions",
    `select id, name, revision, config_env_at is not null as "mayHaveConfigEnv" from scopes
     where id in ($1, $2, $3) and deleted_at is null and not doubted`,
    [projectId, environmentId, serviceId],
  );
}

/**
 * Records that a service has no `config.env`, as the deployer answered. One announced meanwhile has a fresh mark, or gets
 * one when the announcement is deleted. Marks stay for an hour after an upgrade: an older deployer announces nothing.
 */
export function clearConfigEnv(pool: Pool, serviceId: string) {
  return execute(
    pool,
    "config_env_clear",
    "update scopes set config_env_at = null where id = $1 and config_env_at < now() - interval '1 hour'",
    [serviceId],
  );
}

/** Records that the `config.env` of a service changed, so that followers of its resolved set ask for it. */
export function markConfigEnv(db: Db, serviceId: string) {
  const text = "update scopes set config_env_at = clock_timestamp() where id = $1 and deleted_at is null";
  return execute(db, "config_env_mark", text, [serviceId]);
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

/** Inserts the innermost scope of `ids`, a service without its name. Returns false when it is known, or was deleted. */
export async function insertScope(
  db: Db,
  ids: ScopeIds,
  service?: { type: string; mayHaveConfigEnv: boolean },
): Promise<boolean> {
  const { id, kind, parentId } = innermost(ids);
  const inserted = await execute(
    db,
    "scope_insert",
    `insert into scopes (id, account_id, parent_id, kind, type, config_env_at)
     values ($1, $2, $3, $4, $5, case when $6::boolean then now() end) on conflict do nothing`,
    [id, ids.accountId, parentId, kind, service?.type, service?.mayHaveConfigEnv],
  );
  return inserted === 1;
}

function innermost({ projectId, environmentId, serviceId }: ScopeIds) {
  const kind = serviceId !== undefined ? "service" : environmentId !== undefined ? "environment" : "project";
  const [id, parentId] = [serviceId, environmentId, projectId].filter((one) => one !== undefined);
  return { id, kind, parentId };
}

/** The name of a service, and since when it has it. */
export type Naming = { serviceId: string; environmentId: string; name: string; namedAt: Date | undefined };

const since = (value: string) => `coalesce(${value}::timestamptz, '-infinity')`;

/**
 * Sets the name of a service unless a later one is known, and clears it from an earlier holder, which keeps its variables
 * and has no name until its new one is known. A later holder keeps the name. Returns whether the name was set now. Runs
 * under the project's lock.
 */
export async function nameService(db: Db, { serviceId, environmentId, name, namedAt }: Naming) {
  const claimed = await execute(
    db,
    "scope_claim_name",
    `update scopes set name = null, named_at = coalesce($2::timestamptz, named_at)
     where id = $1 and deleted_at is null and (${since("named_at")} < ${since("$2")}
       or (name is null and ${since("named_at")} = ${since("$2")}))`,
    [serviceId, namedAt],
  );
  if (claimed === 0) return false;
  await execute(
    db,
    "scope_yield_name",
    `update scopes set name = null where parent_id = $1 and name = $2 and deleted_at is null and id <> $3
       and (${since("named_at")}, id) < (${since("$4")}, $3)`,
    [environmentId, name, serviceId, namedAt],
  );
  const named = await execute(
    db,
    "scope_name",
    `update scopes set name = $2 where id = $3
       and not exists (select from scopes where parent_id = $1 and name = $2 and deleted_at is null)`,
    [environmentId, name, serviceId],
  );
  return named === 1;
}

/** Clears the name of a service, so that a lookup of the name asks the deployer; the service itself stays. */
export function clearName(db: Db, serviceId: string) {
  const text = "update scopes set name = null where id = $1 and kind = 'service'";
  return execute(db, "scope_clearName", text, [serviceId]);
}

/** Inserts a scope as deleted, so that late events cannot create it; a known one is left as it is. */
export function insertDeleted(db: Db, ids: ScopeIds) {
  const { id, kind, parentId } = innermost(ids);
  return execute(
    db,
    "scope_insert_deleted",
    `insert into scopes (id, account_id, parent_id, kind, deleted_at) values ($1, $2, $3, $4, now())
     on conflict (id) do nothing`,
    [id, ids.accountId, parentId, kind],
  );
}

/**
 * Marks scopes and all below them deleted, and deletes their variables and addon keys: in one statement, so this file writes
 * those tables too. Returns how many addon keys were deleted.
 */
export async function softDeleteTrees(db: Db, ids: string[]): Promise<number> {
  const deleted = await one<{ keys: number }>(
    db,
    "scope_soft_delete",
    `with tree as (
       select unnest($1::text[]) as id
       union all select id from scopes where parent_id = any($1) and deleted_at is null
       union all select c.id from scopes m join scopes c on c.parent_id = m.id and c.deleted_at is null
         where m.parent_id = any($1) and m.deleted_at is null
     ), marked as (
       update scopes set deleted_at = coalesce(deleted_at, now()), ready = false where id in (select id from tree)
       returning id
     ), emptied as (
       delete from variables where scope_id in (select id from tree)
     ), forgotten as (
       delete from changes where scope_id in (select id from tree)
     ), announced as (
       delete from doubts where scope_id in (select id from marked)
     ), keys as (
       delete from addon_keys where service_id in (select id from tree) returning 1
     ) select count(*)::int as keys from keys`,
    [ids],
  );
  return deleted?.keys ?? 0;
}

/** Returns which of the names are services of the environment. */
export async function findServiceNames(db: Db, environmentId: string, names: string[]): Promise<Set<string>> {
  const found = await many<{ name: string }>(
    db,
    "services_known",
    "select name from scopes where parent_id = $1 and name = any($2) and deleted_at is null",
    [environmentId, names],
  );
  return new Set(found.map(({ name }) => name));
}

/** A web, worker or cron service, as the deployer lists it. */
export type ServiceRef = { id: string; name: string; environmentId: string };

/** Locks the projects of an account that are not deleted, as `lockProject` does, and returns them. */
export async function lockProjects(db: Db, accountId: string): Promise<string[]> {
  const text = `select id from scopes where account_id = $1 and kind = 'project' and deleted_at is null
    order by id for no key update`;
  return (await many<{ id: string }>(db, "account_projects", text, [accountId])).map(({ id }) => id);
}

/** Lists the newest environments of a project. */
export async function listEnvironments(db: Db, projectId: string, limit: number): Promise<string[]> {
  const found = await many<{ id: string }>(
    db,
    "environments_newest",
    `select id from scopes where parent_id = $1 and kind = 'environment' and deleted_at is null
     order by id desc limit $2`,
    [projectId, limit],
  );
  return found.map(({ id }) => id);
}

/** Lists the web, worker and cron services that are one of the scopes or in one, newest first. */
export function listServicesIn(db: Db, scopeIds: string[]) {
  return many<{ id: string; name: string; environmentId: string }>(
    db,
    "services_in",
    `select id, name, parent_id as "environmentId" from scopes
     where (id = any($1) or parent_id = any($1)) and type in ('web', 'worker', 'cron') and deleted_at is null
     order by id desc`,
    [scopeIds],
  );
}

/** Records that an addon published this revision. Returns false when it is not newer than what is known. */
export async function recordPublication(
  db: Db,
  addon: { serviceId: string; ready: boolean; revision: number },
): Promise<boolean> {
  const changed = await execute(
    db,
    "scope_record_publication",
    `update scopes set ready = $2, keys_revision = $3
     where id = $1 and deleted_at is null and (keys_revision < $3 or (keys_revision = $3 and ready <> $2))`,
    [addon.serviceId, addon.ready, addon.revision],
  );
  return changed === 1;
}
