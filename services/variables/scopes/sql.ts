// Statements on the scope tree.
import { type Db, execute, many, one, type Pool, type Tx } from "../../kit/postgres/db.ts";
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
  /** The deletion of one of them was announced. */
  doubted: boolean;
};

const PATH = `p.account_id as "accountId", p.id as "projectId", p.revision as "projectRevision",
  e.id as "environmentId", e.revision as "environmentRevision",
  s.id as "serviceId", s.revision as "serviceRevision", s.type as "serviceType",
  s.config_env_at is not null as "mayHaveConfigEnv",
  exists (select from doubts d where d.scope_id in (p.id, e.id, s.id)) as doubted`;

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
 * Lists what changes of the scopes of a row, without those that are deleted or whose deletion was announced. With an
 * array instead of three parameters, PostgreSQL would plan it anew each time; to look for doubts here makes a read
 * costlier by a tenth.
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

/** How long after its announcement a deletion may still be under way. */
const DOUBT = "interval '2 minutes'";

/** Records that the deletion, the `config.env` or the new name of a scope was announced, also of one that is not known. */
export async function insertDoubt(pool: Pool, scopeId: string): Promise<void> {
  // A trigger marks the scope.
  await execute(
    pool,
    "doubt_insert",
    "insert into doubts (scope_id) values ($1) on conflict (scope_id) do update set at = now()",
    [scopeId],
  );
  // It did not see a scope that was being inserted; whoever finds that from now on finds the doubt.
  await execute(pool, "doubt_mark", "update scopes set doubted = true where id = $1 and not doubted", [
    scopeId,
  ]);
}

/** Takes the name from a service, so that only the deployer says which one has it, and nobody takes it for deleted. */
export function unname(db: Db, serviceId: string) {
  const text = "update scopes set name = null where id = $1 and kind = 'service'";
  return execute(db, "scope_unname", text, [serviceId]);
}

/**
 * Deletes announcements of deletions that did not happen: the scopes still exist long after. Locks those scopes first, so
 * that an announcement which is made meanwhile marks them again.
 */
export async function deleteStaleDoubts(tx: Tx, scopeIds: string[]): Promise<void> {
  const stale = await many<{ id: string }>(
    tx,
    "doubts_lock",
    `select id from scopes s where id = any($1)
       and exists (select from doubts where scope_id = s.id and at < now() - ${DOUBT})
     for no key update`,
    [scopeIds],
  );
  if (stale.length === 0) return;
  const ids = stale.map(({ id }) => id);
  const text = `delete from doubts where scope_id = any($1) and at < now() - ${DOUBT}`;
  await execute(tx, "doubts_delete_stale", text, [ids]);
  await execute(
    tx,
    "doubts_unmark",
    `update scopes s set doubted = false
     where id = any($1) and not exists (select from doubts where scope_id = s.id)`,
    [ids],
  );
}

/**
 * Records that a service has no `config.env`, as the deployer said. One that was announced meanwhile has a fresh mark, or
 * gets it when the announcement is withdrawn. For an hour after an upgrade marks stay: a deployer of before announces none.
 */
export function clearConfigEnv(pool: Pool, serviceId: string) {
  return execute(
    pool,
    "config_env_clear",
    "update scopes set config_env_at = null where id = $1 and config_env_at < now() - interval '1 hour'",
    [serviceId],
  );
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

/** What a service is called, and since when. */
export type Naming = { serviceId: string; environmentId: string; name: string; namedAt: Date | undefined };

const since = (value: string) => `coalesce(${value}::timestamptz, '-infinity')`;

/**
 * Gives a service its name, unless it is known to have got another one later, and takes it from whoever had it before: that
 * one has none until its own is known, and keeps its variables. Where a later holder is known, this one gets none. Returns
 * whether it got its name now. Under the lock of the project.
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

/** Inserts a scope as deleted, also one that was never known; a known one stays as it is. */
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

/** Marks a scope and all below it deleted, with their variables and keys. Returns how many addon keys were deleted. */
export async function softDeleteTree(db: Db, id: string): Promise<number> {
  const gone = await one<{ keys: number }>(
    db,
    "scope_soft_delete",
    `with tree as (
       select $1::text as id
       union all select id from scopes where parent_id = $1 and deleted_at is null
       union all select c.id from scopes m join scopes c on c.parent_id = m.id and c.deleted_at is null
         where m.parent_id = $1 and m.deleted_at is null
     ), marked as (
       update scopes set deleted_at = coalesce(deleted_at, now()), ready = false where id in (select id from tree)
       returning id
     ), emptied as (
       delete from variables where scope_id in (select id from tree)
     ), certain as (
       delete from doubts where scope_id in (select id from marked)
     ), withdrawn as (
       delete from addon_keys where service_id in (select id from tree) returning 1
     ) select count(*)::int as keys from withdrawn`,
    [id],
  );
  return gone?.keys ?? 0;
}

/** Raises the revision of an environment whose services or addon keys changed. Returns undefined when it is deleted. */
export async function bumpEnvironmentRevision(db: Db, id: string): Promise<number | undefined> {
  const touched = await one<{ revision: number }>(
    db,
    "environment_bump_revision",
    `update scopes set revision = revision + 1, widest_key = (
       select coalesce(max(k.size), 0) from scopes s join addon_keys k on k.service_id = s.id
       where s.parent_id = $1 and s.deleted_at is null)
     where id = $1 and deleted_at is null returning revision`,
    [id],
  );
  return touched?.revision;
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

/** A web or worker service, as the deployer lists it. */
export type ServiceRef = { id: string; name: string; environmentId: string };

/** Lists the projects of an account that are not deleted. */
export async function listProjects(db: Db, accountId: string): Promise<string[]> {
  const text = `select id from scopes where account_id = $1 and kind = 'project' and deleted_at is null order by id`;
  return (await many<{ id: string }>(db, "account_projects", text, [accountId])).map(({ id }) => id);
}
