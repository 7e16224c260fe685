import { type Db, execute, one } from "../../kit/postgres/db.ts";
import { BEING_MADE } from "../addons/sql.ts";
import type { RuntimeStatus, Scale } from "../runtime/port.ts";
import { epochMs } from "../shared/epoch-ms.ts";
import type { StoredSource } from "../sources/stored-source.ts";
import type { ServiceType } from "../terms/services.ts";
import { autoscalingOf, type StoredConfig } from "../terms/stored-config.ts";

/** A service's status as recorded. */
export type RecordedStatus = {
  state?: string | null;
  reason?: string | null;
  message?: string | null;
  serving?: number | null;
  available?: number | null;
  url?: string | null;
  /** The time of the last change that usage has recorded. */
  usageAt?: number | null;
};

/** A service with one of its deployments: all that a release is made of but the variables. */
export type ReleaseRow = {
  serviceId: string;
  accountId: string;
  projectId: string;
  environmentId: string;
  project: string;
  environment: string;
  service: string;
  objectName?: string;
  type: ServiceType;
  autoApply: boolean;
  deploymentId: string;
  version: number;
  status: string;
  config: StoredConfig;
  /** The service's source when the deployment was accepted. */
  source: StoredSource;
  artifact?: string;
  buildId?: string;
  archiveRef?: string;
  archiveDigest?: string;
  buildStartedMs?: number;
  fingerprint?: string;
  revision: number;
  appliedRevision?: number;
  /** How often users asked for a restart. */
  rolls: number;
  dirtyAt?: string;
  tier?: string;
  /** Whether it is to have no replicas, because nothing pays for them. */
  suspended: boolean;
  hasVariableWarnings: boolean;
  /** Whether buildpacks made the image, this deployment's or the one's whose build it runs: their launcher starts it. */
  byBuildpacks: boolean;
};

/** Returns the size of a release, how many replicas it is to have, and how it is scaled if it is. */
export function scaleOf({ suspended, config }: Pick<ReleaseRow, "suspended" | "config">): Scale {
  const { size, replicas: configured = 1 } = config;
  const replicas = suspended ? 0 : configured;
  const autoscaling = autoscalingOf({ ...config, replicas });
  return { replicas, size, ...(autoscaling && { autoscaling }) };
}

const RELEASE = `
  select s.id as "serviceId", s.account_id as "accountId", s.project_id as "projectId",
    s.environment_id as "environmentId", p.name as project, e.name as environment, s.name as service,
    s.object_name as "objectName", s.type,
    coalesce((s.config -> 'autoApply')::boolean, true) as "autoApply",
    d.id as "deploymentId", d.version, d.status, d.config, d.source, d.artifact, d.build_id as "buildId",
    d.archive_ref as "archiveRef", d.archive_digest as "archiveDigest", ${epochMs("d.build_started_at")} as "buildStartedMs", s.fingerprint,
    s.variables_revision as revision, s.applied_revision as "appliedRevision", s.rolls, s.dirty_at::text as "dirtyAt",
    d.warnings @> '[{"stage": "resolve"}]' as "hasVariableWarnings",
    coalesce(d.buildpacks, (select b.buildpacks from deployments b
      where b.service_id = d.service_id and b.version = d.built_version)) is not null as "byBuildpacks",
    (select a.tier from accounts a where a.id = s.account_id) as tier, s.suspended is not null as suspended
  from services s join environments e on e.id = s.environment_id join projects p on p.id = s.project_id
  join deployments d on d.service_id = s.id`;

export function findRelease(db: Db, deploymentId: string) {
  return one<ReleaseRow>(db, "release_get", `${RELEASE} where d.id = $1`, [deploymentId]);
}

export function findLiveRelease(db: Db, serviceId: string) {
  return one<ReleaseRow>(db, "release_live", `${RELEASE} where s.id = $1 and d.version = s.live_version`, [
    serviceId,
  ]);
}

/** Records the image of a queued deployment by its digest. Returns 0 when the deployment has ended. */
export function pinImage(db: Db, deploymentId: string, artifact: string, image: string): Promise<number> {
  return execute(
    db,
    "deployment_pin_image",
    "update deployments set artifact = $2, image = $3 where id = $1 and status = 'queued'",
    [deploymentId, artifact, image],
  );
}

export type LeasedService = { liveVersion?: number; revision: number };

/**
 * Locks a service whose lease the owner holds, so that nothing is accepted, deleted or applied meanwhile. Returns
 * undefined when another process holds the lease or the service is being deleted. A process that stalls for 60 s while
 * it holds the lock loses it.
 */
export function lockWhileLeased(db: Db, owner: number, serviceId: string) {
  return one<LeasedService>(
    db,
    "service_lock_held",
    `select s.live_version as "liveVersion", s.variables_revision as revision,
       set_config('idle_in_transaction_session_timeout', '60s', true)
     from services s join work w on w.service_id = s.id
     where s.id = $2 and w.lease_owner = $1 and s.deleting_at is null for no key update of s`,
    [owner, serviceId],
  );
}

/**
 * Returns the revision of a set of variables: the last one for the same fingerprint, else the next; undefined when the
 * owner does not hold the lease.
 */
export async function assignRevision(db: Db, owner: number, serviceId: string, fingerprint: string) {
  const row = await one<{ revision: number }>(
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

/** How long a deployment that is about to be applied waits for addons that its variables refer to. */
const ADDON_WAIT = "interval '60 seconds'";

/**
 * Has a deployment wait for those of the named addons that are still being created, and returns their names; undefined
 * when there are none, or when it has waited long enough. An addon that has just become ready counts once, so that its
 * keys are asked for again.
 */
export async function awaitAddons(db: Db, owner: number, deploymentId: string, names: string[]) {
  const row = await one<{ awaits: string[] }>(
    db,
    "release_await_addons",
    `with made as (
       select d.id, array_agg(a.name order by a.name) as names from deployments d
       join services s on s.id = d.service_id join work w on w.service_id = s.id and w.lease_owner = $1
       join services a on a.environment_id = s.environment_id and a.name = any($3)
         and (${BEING_MADE} or (a.addon_state = 'ready' and d.awaits_until is null))
       where d.id = $2 and (d.awaits_until is null or d.awaits_until > now()) group by d.id)
     update deployments d set awaits = made.names, awaits_until = coalesce(d.awaits_until, now() + ${ADDON_WAIT})
     from made where d.id = made.id and d.status in ('queued', 'built') returning d.awaits`,
    [owner, deploymentId, names],
  );
  return row?.awaits;
}

/** Clears the mark of changed variables, unless they changed after the parameter's `dirtyAt`. */
const clearDirty = (dirtyAt: string) =>
  ["dirty_since", "dirty_at"]
    .map(
      (column) =>
        `${column} = case when dirty_at is distinct from ${dirtyAt}::timestamptz then ${column} end`,
    )
    .join(", ");

/**
 * Records the release that is applied, with the sealed digests of its variables. They count as compared unless they
 * changed after `dirtyAt` was read.
 */
export function recordRelease(
  db: Db,
  release: { serviceId: string; version: number; revision: number; dirtyAt?: string },
  digests: Buffer,
) {
  return execute(
    db,
    "release_note",
    `update services set runtime_state = case when live_version = $2 and applied_revision = $3
         then runtime_state else 'starting' end,
       live_version = $2, applied_revision = $3, pending_variables = false, applied_variables = $5,
       ${clearDirty("$4")}
     where id = $1`,
    [release.serviceId, release.version, release.revision, release.dirtyAt, digests],
  );
}

/**
 * Records that a release runs which the database has lost: it runs on until the next deployment, whose version and
 * revision of variables are newer. Of a version that the database has, only the variables are newer.
 */
export function keepUnknown(db: Db, serviceId: string, running: { version: number; revision: number }) {
  return execute(
    db,
    "release_keep",
    `update services set kept_version = case when next_version <= $2 then $2 else kept_version end,
       next_version = greatest(next_version, $2 + 1), variables_revision = greatest(variables_revision, $3),
       applied_revision = case when live_version = $2 then greatest(applied_revision, $3) else applied_revision end
     where id = $1`,
    [serviceId, running.version, running.revision],
  );
}

/** Records that variables were compared and not applied: unchanged or, if `pending`, left to the next deploy. */
export function recordComparison(db: Db, serviceId: string, pending: boolean, dirtyAt: string | undefined) {
  return execute(
    db,
    "release_compared",
    `update services set pending_variables = $2, ${clearDirty("$3")} where id = $1`,
    [serviceId, pending, dirtyAt],
  );
}

/** Records a runtime's status. Returns the one recorded before; undefined when the owner does not hold the lease. */
export function recordStatus(db: Db, owner: number, status: RuntimeStatus) {
  return one<RecordedStatus & { accountId: string; type: string; unhealthy: boolean }>(
    db,
    "status_record",
    `with before as (
       select s.id, s.account_id, s.type, s.runtime_state, s.runtime_reason, s.unhealthy from services s
       join work w on w.service_id = s.id and w.lease_owner = $1 where s.id = $2 for no key update of s)
     update services s set runtime_state = $3, runtime_reason = $4, runtime_message = $5, serving_version = $6, url = $7,
       available = $8, unhealthy = $3 in ('degraded', 'crashed') or (before.unhealthy and $3 <> 'running')
     from before where s.id = before.id
     returning before.account_id as "accountId", before.type, before.runtime_state as state, before.runtime_reason as reason,
       before.unhealthy`,
    [
      owner,
      status.serviceId,
      status.state,
      status.reason,
      status.message,
      status.serving?.version,
      status.url,
      status.available,
    ],
  );
}

/** Records that nothing runs for the service, for a reason that another try does not change. Returns undefined when it was known. */
export function recordUnappliable(db: Db, serviceId: string, message: string) {
  return one<{ accountId: string }>(
    db,
    "status_broken",
    `update services set runtime_state = 'crashed', runtime_reason = null, runtime_message = $2,
       serving_version = null, unhealthy = true
     where id = $1 and (runtime_state is distinct from 'crashed' or runtime_message is distinct from $2)
     returning account_id as "accountId"`,
    [serviceId, message],
  );
}

/**
 * Records which variables of a service do not resolve. Returns those that are new, if the service is live; undefined when
 * nothing changed.
 */
export function recordDangling(db: Db, serviceId: string, names: string[]) {
  return one<{ accountId: string; added: string[] }>(
    db,
    "dangling_record",
    `with before as (
       select id, dangling, live_version from services where id = $1 and dangling <> $2::text[] for no key update)
     update services s set dangling = $2 from before where s.id = before.id
     returning s.account_id as "accountId",
       case when before.live_version is null then '{}'
         else array(select name from unnest($2::text[]) name where name <> all(before.dangling)) end as added`,
    [serviceId, names],
  );
}
