import { count, type Db, maybe, rows } from "../kit/db.ts";
import { times } from "./limits.ts";
import type { Desired, Seen } from "./pipeline.ts";
import type { RuntimeStatus } from "./runtime/port.ts";
import type { StoredConfig } from "./service-config.ts";
import type { StoredNotice } from "./sql-deployments.ts";
import { wakeReconcilers } from "./sql-work.ts";

const ms = (column: string) => `(extract(epoch from ${column}) * 1000)::float8`;

/** All that `plan` has to know of a service; undefined when it is no more. */
export function loadDesired(db: Db, serviceId: string) {
  return maybe<Desired>(
    db,
    "desired",
    `select ${ms("now()")} as now, s.type, s.staged, s.deleting_at is not null as deleting,
       s.addon_state as "addonState", ${ms("s.dirty_at")} as "dirtyAt", ${ms("s.dirty_since")} as "dirtySince",
       jsonb_build_object('state', s.runtime_state, 'reason', s.runtime_reason, 'message', s.runtime_message,
         'serving', s.serving_version, 'url', s.url) as seen,
       (select jsonb_build_object('id', d.id, 'version', d.version, 'status', d.status,
          'fromSource', d.build_id is not null, 'createdAt', ${ms("d.created_at")},
          'buildStartedAt', ${ms("d.build_started_at")}, 'applyStartedAt', ${ms("d.apply_started_at")})
        from deployments d where d.service_id = s.id and d.status in ('queued', 'building', 'built')) as active,
       (select jsonb_build_object('version', d.version, 'revision', s.applied_revision,
          'healthy', d.healthy_at is not null)
        from deployments d where d.service_id = s.id and d.version = s.live_version) as live,
       (select coalesce(jsonb_agg(jsonb_build_object('deploymentId', d.id, 'buildId', d.build_id,
          'artifact', d.artifact)), '[]') from deployments d
        where d.service_id = s.id and d.leftover and d.status in ('failed', 'superseded')) as leftovers
     from services s where s.id = $1`,
    [serviceId],
  );
}

/** A service with one of its deployments, as its release is made of them. */
export type ReleaseRow = {
  serviceId: string;
  accountId: string;
  projectId: string;
  environmentId: string;
  project: string;
  environment: string;
  service: string;
  type: "web" | "worker";
  autoApply: boolean;
  deploymentId: string;
  version: number;
  status: string;
  config: StoredConfig;
  artifact?: string;
  buildId?: string;
  archiveRef?: string;
  buildStartedMs?: number;
  fingerprint?: string;
  revision: number;
  appliedRevision?: number;
  dirtyAt?: string;
};

const RELEASE = `
  select s.id as "serviceId", s.account_id as "accountId", s.project_id as "projectId",
    s.environment_id as "environmentId", p.name as project, e.name as environment, s.name as service, s.type,
    coalesce((s.config -> 'autoApply')::boolean, true) as "autoApply",
    d.id as "deploymentId", d.version, d.status, d.config, d.artifact, d.build_id as "buildId",
    d.archive_ref as "archiveRef", ${ms("d.build_started_at")} as "buildStartedMs", s.fingerprint,
    s.variables_revision as revision, s.applied_revision as "appliedRevision", s.dirty_at::text as "dirtyAt"
  from services s join environments e on e.id = s.environment_id join projects p on p.id = s.project_id
  join deployments d on d.service_id = s.id`;

export function releaseOf(db: Db, deploymentId: string) {
  return maybe<ReleaseRow>(db, "release_get", `${RELEASE} where d.id = $1`, [deploymentId]);
}

export function liveReleaseOf(db: Db, serviceId: string) {
  return maybe<ReleaseRow>(db, "release_live", `${RELEASE} where s.id = $1 and d.version = s.live_version`, [
    serviceId,
  ]);
}

/**
 * Locks a service that the owner still holds the lease of, so that nothing is accepted, deleted or applied
 * meanwhile. Undefined: somebody else works on it now, or it is being deleted.
 */
export function lockHeld(db: Db, owner: number, serviceId: string) {
  return maybe<{ accountId: string; liveVersion?: number }>(
    db,
    "service_lock_held",
    `select s.account_id as "accountId", s.live_version as "liveVersion" from services s
     join work w on w.service_id = s.id
     where s.id = $2 and w.lease_owner = $1 and s.deleting_at is null for no key update of s`,
    [owner, serviceId],
  );
}

type Moved = { accountId: string; serviceId: string; version: number };
const MOVED = `returning d.service_id as "serviceId", d.version,
  (select account_id from services s where s.id = d.service_id) as "accountId"`;

/** Leaves `queued`, or begins the same build again; only for the owner of the lease. */
export function beginBuild(db: Db, owner: number, deploymentId: string) {
  return maybe<Moved & { again: boolean }>(
    db,
    "deployment_begin_build",
    `with before as (select id, status from deployments where id = $2 for update)
     update deployments d set status = 'building', build_stage = 'Waiting for builder', leftover = true,
       build_started_at = coalesce(d.build_started_at, now())
     from before, work w
     where d.id = before.id and before.status in ('queued', 'building') and d.build_id is not null
       and w.service_id = d.service_id and w.lease_owner = $1
     ${MOVED}, before.status = 'building' as again`,
    [owner, deploymentId],
  );
}

export function setBuildStage(db: Db, deploymentId: string, stage: string) {
  return count(
    db,
    "deployment_build_stage",
    "update deployments set build_stage = $2 where id = $1 and status = 'building'",
    [deploymentId, stage],
  );
}

export function finishBuild(
  db: Db,
  owner: number,
  built: { deploymentId: string; artifact: string; image?: string },
) {
  return maybe<Moved>(
    db,
    "deployment_finish_build",
    `update deployments d set status = 'built', built_at = now(), build_stage = null, artifact = $3, image = $4
     from work w
     where d.id = $2 and d.status = 'building' and w.service_id = d.service_id and w.lease_owner = $1 ${MOVED}`,
    [owner, built.deploymentId, built.artifact, built.image],
  );
}

export function failDeployment(db: Db, deploymentId: string, error: StoredNotice) {
  return maybe<Moved>(
    db,
    "deployment_fail",
    `update deployments d set status = 'failed', finished_at = now(), build_stage = null, errors = errors || $2::jsonb
     where d.id = $1 and d.status in ('queued', 'building', 'built') ${MOVED}`,
    [deploymentId, JSON.stringify([error])],
  );
}

export function beginApply(db: Db, deploymentId: string) {
  return count(
    db,
    "deployment_begin_apply",
    `update deployments set apply_started_at = coalesce(apply_started_at, now())
     where id = $1 and status in ('queued', 'built')`,
    [deploymentId],
  );
}

/** The revision of a set of variables: the last one for the same fingerprint, else the next. */
export async function revisionFor(db: Db, owner: number, serviceId: string, fingerprint: string) {
  const row = await maybe<{ revision: number }>(
    db,
    "revision_for",
    `update services s set fingerprint = $3,
       variables_revision = variables_revision + (fingerprint is distinct from $3)::int
     from work w where s.id = $2 and w.service_id = s.id and w.lease_owner = $1
     returning s.variables_revision as revision`,
    [owner, serviceId, fingerprint],
  );
  return row?.revision;
}

/** Only the newest deployment of the service, and only from a state that is not final. */
export function markApplied(db: Db, deploymentId: string) {
  return maybe<Moved>(
    db,
    "deployment_applied",
    `update deployments d set status = 'applied', applied_at = now(), leftover = false
     where d.id = $1 and d.status in ('queued', 'built')
       and d.version = (select max(version) from deployments where service_id = d.service_id) ${MOVED}`,
    [deploymentId],
  );
}

/**
 * Notes which release the runtime took. Variables count as compared unless they changed since `dirtyAt`
 * was read.
 */
export function noteRelease(
  db: Db,
  release: { serviceId: string; version: number; revision: number; dirtyAt?: string },
) {
  return count(
    db,
    "release_note",
    `update services set runtime_state = case when live_version = $2 and applied_revision = $3
         then runtime_state else 'starting' end,
       live_version = $2, applied_revision = $3, pending_variables = false,
       dirty_since = case when dirty_at is not distinct from $4::timestamptz then null else dirty_since end,
       dirty_at = case when dirty_at is not distinct from $4::timestamptz then null else dirty_at end
     where id = $1`,
    [release.serviceId, release.version, release.revision, release.dirtyAt],
  );
}

/** Variables were compared and nothing is applied: they are the same, or wait for the next deploy. */
export function noteCompared(db: Db, serviceId: string, pending: boolean, dirtyAt: string | undefined) {
  return count(
    db,
    "release_compared",
    `update services set pending_variables = $2,
       dirty_since = case when dirty_at is not distinct from $3::timestamptz then null else dirty_since end,
       dirty_at = case when dirty_at is not distinct from $3::timestamptz then null else dirty_at end
     where id = $1`,
    [serviceId, pending, dirtyAt],
  );
}

/** Replaces the notes of a stage by the ones of now. */
export function setWarnings(db: Db, deploymentId: string, stage: string, warnings: StoredNotice[]) {
  return count(
    db,
    "deployment_warnings",
    `update deployments set warnings = $3::jsonb || coalesce(
       (select jsonb_agg(w) from jsonb_array_elements(warnings) w where w ->> 'stage' <> $2), '[]')
     where id = $1`,
    [deploymentId, stage, JSON.stringify(warnings)],
  );
}

/** Adds a note unless the deployment has one with its code. */
export function addWarning(db: Db, serviceId: string, version: number, warning: StoredNotice) {
  return count(
    db,
    "deployment_add_warning",
    `update deployments set warnings = warnings || $3::jsonb where service_id = $1 and version = $2
       and not warnings @> jsonb_build_array(jsonb_build_object('code', $4::text))`,
    [serviceId, version, JSON.stringify([warning]), warning.code],
  );
}

/** Records what the runtime does; gives what was recorded before. */
export function recordStatus(db: Db, owner: number, status: RuntimeStatus) {
  return maybe<Seen & { accountId: string }>(
    db,
    "status_record",
    `with before as (
       select s.id, s.account_id, s.runtime_state, s.runtime_reason from services s
       join work w on w.service_id = s.id and w.lease_owner = $1 where s.id = $2 for no key update of s)
     update services s set runtime_state = $3, runtime_reason = $4, runtime_message = $5, serving_version = $6, url = $7
     from before where s.id = before.id
     returning before.account_id as "accountId", before.runtime_state as state, before.runtime_reason as reason`,
    [
      owner,
      status.serviceId,
      status.state,
      status.reason,
      status.message,
      status.serving?.version,
      status.url,
    ],
  );
}

/** The runtime has nothing for the service, for a reason that trying again does not cure. */
export function recordBroken(db: Db, serviceId: string, message: string) {
  return count(
    db,
    "status_broken",
    `update services set runtime_state = 'crashed', runtime_reason = null, runtime_message = $2,
       serving_version = null where id = $1`,
    [serviceId, message],
  );
}

/** First observed running: counts once. */
export function markHealthy(db: Db, serviceId: string, version: number, at: string) {
  return count(
    db,
    "deployment_healthy",
    `update deployments set healthy_at = $3
     where service_id = $1 and version = $2 and status = 'applied' and healthy_at is null`,
    [serviceId, version, at],
  );
}

const SCOPE_COLUMNS = { project: "project_id", environment: "environment_id", service: "id" };

/** Whether a word names a scope of variables. */
export function isScope(scope: string): scope is keyof typeof SCOPE_COLUMNS {
  return scope in SCOPE_COLUMNS;
}

/**
 * The variables under a scope may have changed: its services compare them after a quiet time. Also those
 * that were never applied, as one may be applying the old set at this moment.
 */
export async function markDirty(db: Db, scope: keyof typeof SCOPE_COLUMNS, scopeId: string): Promise<void> {
  await count(
    db,
    `service_dirty_${scope}`,
    `with dirty as (
       update services set dirty_at = clock_timestamp(), dirty_since = coalesce(dirty_since, clock_timestamp())
       where ${SCOPE_COLUMNS[scope]} = $1 and type in ('web', 'worker') and deleting_at is null and next_version > 1
       returning id)
     update work set next_at = least(next_at, now() + make_interval(secs => ${times.debounceMs / 1000}))
     where service_id in (select id from dirty)`,
    [scopeId],
  );
  await wakeReconcilers(db);
}

/** Whether another deployment, live or to be, runs this artifact. */
export async function artifactInUse(db: Db, serviceId: string, deploymentId: string, artifact: string) {
  const found = await rows(
    db,
    "artifact_in_use",
    `select from deployments where service_id = $1 and id <> $2 and artifact = $3
       and status not in ('failed', 'superseded') limit 1`,
    [serviceId, deploymentId, artifact],
  );
  return found.length > 0;
}

export function markDiscarded(db: Db, deploymentId: string) {
  return count(
    db,
    "deployment_discarded",
    "update deployments set leftover = false, artifact = null where id = $1 and leftover",
    [deploymentId],
  );
}

/** What the builder may hold for a service. */
export function buildsOf(db: Db, serviceId: string) {
  return rows<{ buildId?: string; artifact?: string }>(
    db,
    "builds_of",
    `select distinct build_id as "buildId", artifact from deployments
     where service_id = $1 and (artifact is not null or leftover)`,
    [serviceId],
  );
}

/** The service's own rows, last of all; gives its project. */
export function removeService(db: Db, serviceId: string) {
  return maybe<{ projectId: string }>(
    db,
    "service_remove",
    `with history as (delete from deployments where service_id = $1)
     delete from services where id = $1 and deleting_at is not null returning project_id as "projectId"`,
    [serviceId],
  );
}
