import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one, type Tx } from "../../kit/postgres/db.ts";

/** Column of `services` by which a deletion selects. */
export type DeletionColumn = "project_id" | "environment_id" | "id";

type MarkedService = {
  id: string;
  name: string;
  type: string;
  projectId: string;
  environmentId: string;
  live: boolean;
};

/**
 * Marks services as being deleted. Returns those that were not yet, oldest first; `live` means that a release is
 * applied or that an addon holds data.
 */
export function markServices(db: Db, column: DeletionColumn, ids: string[]) {
  return many<MarkedService>(
    db,
    `service_mark_${column}`,
    `with marked as (
       update services set deleting_at = now() where ${column} = any($1) and deleting_at is null
       returning id, name, type, project_id, environment_id, live_version is not null or addon_state = 'ready' as live),
     due as (update work set next_at = now() where service_id in (select id from marked))
     select id, name, type, project_id as "projectId", environment_id as "environmentId", coalesce(live, false) as live
     from marked order by id`,
    [ids],
  );
}

/** How many backups of deleted addons an account has at most: its objects are not bounded otherwise. */
const MOST_KEPT = 100;

/**
 * Keeps the newest backup of each of these addons that succeeded for some days, under the account. An uploaded one only
 * where there is no other. Beyond the most, those go that would go first. Returns how many it were and until when.
 */
export async function keepNewestBackups(tx: Tx, accountId: string, serviceIds: string[], days: number) {
  const kept = await many<{ until: Timestamp }>(
    tx,
    "backups_keep",
    `with newest as (
       select distinct on (b.service_id) b.id, s.name as service, e.name as environment, p.name as project
       from backups b join services s on s.id = b.service_id join environments e on e.id = s.environment_id
         join projects p on p.id = s.project_id
       where b.service_id = any($1) and b.status = 'succeeded' and b.deleting_at is null
       order by b.service_id, b.trigger = 'uploaded' or b.as_of is not null, b.id desc)
     update backups b set kept_until = now() + make_interval(days => $2), service_name = n.service,
       environment_name = n.environment, project_name = n.project
     from newest n where b.id = n.id and b.deleting_at is null returning b.kept_until as until`,
    [serviceIds, days],
  );
  await execute(
    tx,
    "backups_keep_most",
    `update backups b set deleting_at = now(), due_at = now()
     where b.id in (
       select id from backups where account_id = $1 and kept_until is not null and deleting_at is null
       order by kept_until desc, id desc offset ${MOST_KEPT})
       and not exists (select from restores r where r.backup_id = b.id and r.status = 'running')`,
    [accountId],
  );
  return { count: kept.length, until: kept[0]?.until };
}

export function markEnvironments(db: Db, column: "project_id" | "id", ids: string[]) {
  return many<{ id: string; name: string; projectId: string }>(
    db,
    `environment_mark_${column}`,
    `update environments set deleting_at = now() where ${column} = any($1) and deleting_at is null
     returning id, name, project_id as "projectId"`,
    [ids],
  );
}

export function markProjects(db: Db, ids: string[]) {
  return many<{ id: string; name: string }>(
    db,
    "project_mark",
    "update projects set deleting_at = now() where id = any($1) and deleting_at is null returning id, name",
    [ids],
  );
}

/** Removes marked environments without services, then the projects of these that are marked and have no environments. */
export async function pruneProjects(db: Db, projectIds: string[]): Promise<void> {
  await lockProjects(db, projectIds);
  await execute(
    db,
    "environment_prune",
    `delete from environments e where e.project_id = any($1) and e.deleting_at is not null
       and not exists (select from services s where s.environment_id = e.id)`,
    [projectIds],
  );
  await pruneEmptied(db, projectIds);
}

/**
 * Removes the environment of a service that the transaction has removed, and its project, if they are marked and nothing
 * else is in them. As long as a service is left there that nobody is removing now, whoever removes it will look again: so
 * of 10 000 services that are removed at the same time, all but the last few wait for nobody.
 */
export async function pruneEnvironment(
  db: Db,
  of: { environmentId: string; projectId: string },
): Promise<void> {
  const another = await one(
    db,
    "environment_has_more",
    // The lock of one that is being removed conflicts with this one.
    "select id from services where environment_id = $1 order by id desc limit 1 for key share skip locked",
    [of.environmentId],
  );
  if (another) return;
  await lockProjects(db, [of.projectId]);
  await execute(
    db,
    "environment_prune_one",
    `delete from environments e where e.id = $1 and e.deleting_at is not null
       and not exists (select from services s where s.environment_id = e.id)`,
    [of.environmentId],
  );
  await pruneEmptied(db, [of.projectId]);
}

/** Two transactions that remove the last two would otherwise each still see the other one. */
function lockProjects(db: Db, ids: string[]) {
  return many(db, "project_lock", "select id from projects where id = any($1) order by id for update", [ids]);
}

function pruneEmptied(db: Db, projectIds: string[]) {
  return execute(
    db,
    "project_prune",
    `delete from projects p where p.id = any($1) and p.deleting_at is not null
       and not exists (select from environments e where e.project_id = p.id)`,
    [projectIds],
  );
}

/** Locks a service with its deployments: nobody else changes them until the transaction ends. */
export function lockDeployments(db: Db, serviceId: string) {
  return many(
    db,
    "deployments_lock",
    `with held as (select id from services where id = $1 for update)
     select d.id from deployments d join held h on h.id = d.service_id for update of d`,
    [serviceId],
  );
}

/** What the builder may hold of one build: files or a Job under its id, and the artifact if it finished. */
export type BuildOutput = { accountId: string; buildId?: string | null; artifact?: string | null };

/** Returns what the builder may hold for a service. */
export function listBuildOutputs(db: Db, serviceId: string) {
  return many<BuildOutput>(
    db,
    "build_outputs",
    `select distinct s.account_id as "accountId", d.build_id as "buildId", d.artifact
     from deployments d join services s on s.id = d.service_id
     where d.service_id = $1 and (d.artifact is not null or d.leftover)`,
    [serviceId],
  );
}

/** Deletes the rows of a service that is marked, and has its backups removed that are not kept. Returns where it was. */
export function removeService(db: Db, serviceId: string) {
  return one<{ projectId: string; environmentId: string }>(
    db,
    "service_remove",
    `with history as (delete from deployments where service_id = $1),
     left_over as (
       -- One that is being made is removed by whoever makes it, or once the lease ends.
       update backups set deleting_at = now(), due_at = case when status = 'running' then due_at else now() end
       where service_id = $1 and deleting_at is null and kept_until is null)
     delete from services where id = $1 and deleting_at is not null returning project_id as "projectId", environment_id as "environmentId"`,
    [serviceId],
  );
}

/** Returns those of the environments that were removed. */
export async function listDeletedEnvironments(db: Db, ids: string[]): Promise<string[]> {
  const gone = await many<{ id: string }>(
    db,
    "environments_gone",
    "select id from removed where id = any($1)",
    [ids],
  );
  return gone.map((row) => row.id);
}
