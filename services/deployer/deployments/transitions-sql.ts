import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import { planAmount } from "../accounts/plan-amounts.ts";
import { RELAXED } from "../due/sql.ts";
import type { StoredNotice } from "../terms/notice.ts";

// Compare-and-swap: each statement names the states that it leaves, so a late one changes nothing.

/** Class of the advisory lock under which builds are admitted. */
const ADMISSION_CLASS = 1_111_839_318;

type Transition = { accountId: string; serviceId: string; version: number };
const RETURNING = `returning d.service_id as "serviceId", d.version,
  (select account_id from services s where s.id = d.service_id) as "accountId"`;

/** Makes other transactions that admit builds wait until this one ends. */
export async function lockAdmission(db: Db): Promise<void> {
  const text = "select pg_advisory_xact_lock($1::int, hashtext(current_schema()))";
  await many(db, "deployment_lock_admission", text, [ADMISSION_CLASS]);
}

/**
 * Moves to `building` as many waiting builds as there may be with those under way: at most `slots` of all accounts,
 * and of each account what its plan allows by `shares` (see `toPlanAmounts`). An account that builds less comes first,
 * then what waits longer. Only one transaction at a time may do this; now() is when it began to wait for its turn.
 */
export function admitBuilds(db: Db, slots: number, shares: string) {
  return many<Transition & { deploymentId: string }>(
    db,
    "deployment_admit_builds",
    `with under_way as (
       select s.account_id, count(*) as builds from deployments d join services s on s.id = d.service_id
       where d.status = 'building' group by s.account_id),
     line as (
       select d.id, d.created_at, ${planAmount("$2", "s.account_id")} as share, coalesce(u.builds, 0)
         + row_number() over (partition by s.account_id order by d.created_at, d.id) as nth
       from deployments d join services s on s.id = d.service_id left join under_way u on u.account_id = s.account_id
       where d.status = 'queued' and d.build_id is not null and not s.staged and s.deleting_at is null),
     admitted as (
       select d.id from line l join deployments d on d.id = l.id where l.nth <= l.share and d.status = 'queued'
       order by l.nth, l.created_at, l.id
       limit greatest(0, $1 - (select coalesce(sum(builds), 0) from under_way)) for no key update of d skip locked)
     update deployments d set status = 'building', build_stage = 'Waiting for builder', leftover = true,
       build_started_at = clock_timestamp()
     from admitted where d.id = admitted.id ${RETURNING}, d.id as "deploymentId"`,
    [slots, shares],
  );
}

/** Whether a deployment is `building` and `owner` holds its service's lease. */
export async function isBuilding(db: Db, owner: number, deploymentId: string): Promise<boolean> {
  const text = `select d.id from deployments d join work w on w.service_id = d.service_id
     where d.id = $2 and d.status = 'building' and w.lease_owner = $1`;
  return (await one(db, "deployment_is_building", text, [owner, deploymentId])) !== undefined;
}

export function setBuildStage(db: Db, deploymentId: string, stage: string) {
  return execute(
    db,
    "deployment_build_stage",
    `update deployments set build_stage = $2 where id = $1 and status = 'building' returning ${RELAXED}`,
    [deploymentId, stage],
  );
}

/** Records the commit that a build fetched. A deployment that ended meanwhile keeps the one that it has. */
export function setCommit(db: Db, deploymentId: string, commit: string) {
  return execute(
    db,
    "deployment_commit",
    `update deployments set commit = $2
     where id = $1 and (status = 'building' or (status in ('failed', 'superseded') and commit is null))`,
    [deploymentId, commit],
  );
}

/** Moves to `built`. Returns undefined unless `owner` holds the lease. */
export function finishBuild(
  db: Db,
  owner: number,
  built: { deploymentId: string; artifact: string; image?: string; commit?: string; buildpacks?: string[] },
) {
  return one<Transition>(
    db,
    "deployment_finish_build",
    `update deployments d set status = 'built', built_at = now(), build_stage = null, artifact = $3, image = $4,
       commit = coalesce($5, d.commit), buildpacks = $6
     from work w
     where d.id = $2 and d.status = 'building' and w.service_id = d.service_id and w.lease_owner = $1 ${RETURNING}`,
    [
      owner,
      built.deploymentId,
      built.artifact,
      built.image,
      built.commit,
      built.buildpacks && JSON.stringify(built.buildpacks),
    ],
  );
}

export function markFailed(db: Db, deploymentId: string, error: StoredNotice) {
  return one<Transition>(
    db,
    "deployment_fail",
    `update deployments d set status = 'failed', finished_at = now(), build_stage = null, errors = errors || $2::jsonb
     where d.id = $1 and d.status in ('queued', 'building', 'built') ${RETURNING}`,
    [deploymentId, JSON.stringify([error])],
  );
}

export function beginApply(db: Db, deploymentId: string) {
  return execute(
    db,
    "deployment_begin_apply",
    `update deployments set apply_started_at = coalesce(apply_started_at, now())
     where id = $1 and status in ('queued', 'built') returning ${RELAXED}`,
    [deploymentId],
  );
}

/** Moves the newest deployment of the service to `applied`. Returns undefined for any other. */
export function markApplied(db: Db, deploymentId: string) {
  return one<Transition>(
    db,
    "deployment_applied",
    `update deployments d set status = 'applied', applied_at = now(), leftover = false,
       apply_started_at = coalesce(apply_started_at, now())
     where d.id = $1 and d.status in ('queued', 'built')
       and d.version = (select max(version) from deployments where service_id = d.service_id) ${RETURNING}`,
    [deploymentId],
  );
}

/** Records when a version first became healthy; later calls change nothing. */
export function markHealthy(db: Db, serviceId: string, version: number, at: string) {
  return execute(
    db,
    "deployment_healthy",
    `update deployments set healthy_at = $3
     where service_id = $1 and version = $2 and status = 'applied' and healthy_at is null`,
    [serviceId, version, at],
  );
}

/** Replaces the warnings of a stage, unless the deployment failed or was superseded. */
export function setWarnings(db: Db, deploymentId: string, stage: string, warnings: StoredNotice[]) {
  return execute(
    db,
    "deployment_warnings",
    `update deployments set warnings = $3::jsonb || coalesce(
       (select jsonb_agg(w) from jsonb_array_elements(warnings) w where w ->> 'stage' <> $2), '[]')
     where id = $1 and status not in ('failed', 'superseded')`,
    [deploymentId, stage, JSON.stringify(warnings)],
  );
}

/** Adds a warning unless the deployment has one with its code. */
export function addWarning(db: Db, serviceId: string, version: number, warning: StoredNotice) {
  return execute(
    db,
    "deployment_add_warning",
    `update deployments set warnings = warnings || $3::jsonb where service_id = $1 and version = $2
       and not warnings @> jsonb_build_array(jsonb_build_object('code', $4::text))`,
    [serviceId, version, JSON.stringify([warning]), warning.code],
  );
}

/** Records that the build of a deployment that ended without a release may have left something. Returns its status. */
export async function markLeftover(db: Db, deploymentId: string): Promise<string | undefined> {
  const row = await one<{ status: string }>(
    db,
    "deployment_leftover",
    `with marked as (
       update deployments set leftover = true where id = $1 and status in ('failed', 'superseded'))
     select status from deployments where id = $1`,
    [deploymentId],
  );
  return row?.status;
}

/** Records that nothing is left of the build. */
export function markDiscarded(db: Db, deploymentId: string) {
  return execute(
    db,
    "deployment_discarded",
    "update deployments set leftover = false, artifact = null where id = $1 and leftover",
    [deploymentId],
  );
}
