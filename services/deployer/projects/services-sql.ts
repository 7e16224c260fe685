import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { ServiceConfigSchema } from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import type { StoredSource } from "../sources/stored-source.ts";
import type { AddonEngine } from "../terms/services.ts";
import type { StoredConfig } from "../terms/stored-config.ts";
import type { StatusFacts } from "./service-status.ts";

/** Path of an environment: with the account and the project that it has to be in. */
export type EnvironmentPath = { accountId: string; projectId: string; environmentId: string };
/** Path of a service, which is named within its environment. */
export type ServicePath = EnvironmentPath & { service: string };

type ServiceDefinition = {
  id: string;
  name: string;
  type: string;
  source: StoredSource;
  config: StoredConfig;
};

/** A service as users see it, without its configuration. */
export type ShownService = Omit<ServiceDefinition, "source" | "config"> &
  StatusFacts & {
    url?: string;
    liveVersion?: number;
    pendingChanges: boolean;
    createdAt: Timestamp;
    credentialsRotatedAt?: Timestamp;
  };
export type ServiceRow = ShownService &
  ServiceDefinition & {
    nextRunAt?: Timestamp;
    lastRun?: { id: string; status: string; exitCode?: number };
    addonEngine?: AddonEngine | null;
    latestBackupAt?: Timestamp;
    /** Of its last restore. */
    restoredBackup?: string;
    restoreStatus?: string;
    restoreStartedAt?: Timestamp;
    restoreFinishedAt?: Timestamp;
    restoreFailure?: string;
  };

export type NewService = ServiceDefinition &
  EnvironmentPath & { staged: boolean; addonState: "provisioning" | undefined };

/** Inserts a service and its row of the work queue, due at once for an addon. Returns undefined when the name is taken. */
export function insertService(db: Db, service: NewService) {
  return one<{ id: string }>(
    db,
    "service_insert",
    `with added as (
       insert into services (id, account_id, project_id, environment_id, name, type, source, config, staged, addon_state)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
       on conflict on constraint services_name do nothing returning id)
     insert into work (service_id, next_at)
     select id, case when $10::text is not null then now() end from added returning service_id as id`,
    [
      service.id,
      service.accountId,
      service.projectId,
      service.environmentId,
      service.name,
      service.type,
      service.source,
      service.config,
      service.staged,
      service.addonState,
    ],
  );
}

/** What takes effect without a deployment. */
const AT_ONCE = "array['autoApply', 'schedule', 'timeZone', 'overlap', 'runTimeoutSeconds']";

/** What a service shows. pendingChanges: a deploy now would run another configuration, source or set of variables. */
export const SHOWN = `s.id, s.name, s.type, s.staged, s.url, s.created_at as "createdAt",
    s.deleting_at is not null as deleting, s.addon_state as "addonState", s.addon_message as "addonMessage",
    latest.status as "latestStatus", latest.error as "latestError", s.live_version as "appliedVersion",
    case when s.type = 'cron' and s.runtime_state = 'stopped' then 'running' else s.runtime_state end as "runtimeState",
    s.runtime_message as "runtimeMessage",
    case when s.type = 'cron' then s.live_version else s.serving_version end as "liveVersion",
    case when s.type = 'cron' then (select a.suspended from accounts a where a.id = s.account_id)
      else s.suspended end as suspended, s.addon_rotated_at as "credentialsRotatedAt",
    live.version is not null and (s.pending_variables or live.source <> s.source
      or live.config - ${AT_ONCE} <> s.config - ${AT_ONCE}) as "pendingChanges"`;
/** The deployments of a service s from which that follows. */
export const SHOWN_FROM = `
  left join deployments live on live.service_id = s.id and live.version = s.live_version
  left join lateral (
    select d.status, d.errors -> 0 ->> 'message' as error from deployments d
    where d.service_id = s.id order by d.version desc limit 1
  ) latest on true`;

const SERVICE = `select ${SHOWN}, s.source, s.config, s.addon_engine as "addonEngine",
    case when s.type = 'cron' and s.live_version is not null and s.deleting_at is null and not exists (
      select from accounts a where a.id = s.account_id and a.suspended is not null)
      then (select w.next_at from schedules w where w.service_id = s.id) end as "nextRunAt",
    case when s.type = 'cron' then (
      select jsonb_strip_nulls(jsonb_build_object('id', r.id, 'status', r.status, 'exitCode', r.exit_code))
      from runs r where r.service_id = s.id order by r.id desc limit 1) end as "lastRun",
    case when s.addon_state is not null then (select max(b.started_at) from backups b
      where b.service_id = s.id and b.status = 'succeeded' and b.trigger <> 'uploaded' and b.as_of is null and b.deleting_at is null) end
      as "latestBackupAt",
    restore.backup_id as "restoredBackup", restore.status as "restoreStatus", restore.started_at as "restoreStartedAt",
    restore.finished_at as "restoreFinishedAt", restore.failure as "restoreFailure"
  from services s left join restores restore on restore.service_id = s.id ${SHOWN_FROM}`;

/** Returns a service, also one whose environment is being deleted: it is marked with it. */
export function findService(db: Db, path: ServicePath) {
  return one<ServiceRow>(
    db,
    "service_get",
    `${SERVICE} where s.account_id = $1 and s.project_id = $2 and s.environment_id = $3 and s.name = $4`,
    [path.accountId, path.projectId, path.environmentId, path.service],
  );
}

export function listServices(db: Db, environmentId: string, before: string | undefined, limit: number) {
  return many<ServiceRow>(
    db,
    "service_page",
    `${SERVICE} where s.environment_id = $1 and ${isBelow("s.id", "$2")} order by s.id desc limit $3`,
    [environmentId, before, limit],
  );
}

export type StagedSource = { archiveRef?: string; archiveDigest?: string; image?: string };

export type LockedService = ServiceDefinition & {
  accountId: string;
  environmentId: string;
  staged: boolean;
  toDeploy: StagedSource;
  deleting: boolean;
  /** The version of its next deployment. */
  nextVersion: number;
  /** The newest revision of its variables, and when they may have changed since they were last compared. */
  revision: number;
  dirtyAt?: string | null;
  /** Replicas and size of what is live. */
  liveScale?: Pick<StoredConfig, "replicas" | "size"> | null;
};

const LOCKED = `
  select s.id, s.account_id as "accountId", s.environment_id as "environmentId", s.name, s.type, s.source,
    s.config, s.staged, s.deleting_at is not null as deleting, s.next_version as "nextVersion",
    s.variables_revision as revision, s.dirty_at::text as "dirtyAt",
    (select jsonb_build_object('replicas', d.config -> 'replicas', 'size', d.config -> 'size') from deployments d
      where d.service_id = s.id and d.version = s.live_version) as "liveScale",
    jsonb_strip_nulls(jsonb_build_object('archiveRef', s.staged_archive, 'archiveDigest', s.staged_digest,
      'image', s.staged_image)) as "toDeploy"
  from services s join environments e on e.id = s.environment_id and e.deleting_at is null`;

/** Returns a service, locked so that its deployments, changes and deletion are serialized. */
export function lockService(db: Db, path: ServicePath) {
  return one<LockedService>(
    db,
    "service_lock",
    `${LOCKED} where s.account_id = $1 and s.project_id = $2 and s.environment_id = $3 and s.name = $4
     for no key update of s`,
    [path.accountId, path.projectId, path.environmentId, path.service],
  );
}

/** Returns the staged services of an environment, locked, oldest first. */
export function lockStaged(db: Db, environmentId: string) {
  return many<LockedService>(
    db,
    "service_lock_staged",
    `${LOCKED} where s.environment_id = $1 and s.staged and s.deleting_at is null
     order by s.id for no key update of s`,
    [environmentId],
  );
}

/** The members of a configuration that this version knows. */
const MEMBERS = ServiceConfigSchema.fields.map(({ jsonName }) => jsonName);

/** Stores source and configuration. Members that only a newer version knows, which may run beside this one, stay. */
export function updateService(db: Db, id: string, source: StoredSource, config: StoredConfig) {
  return execute(
    db,
    "service_update",
    "update services set source = $2, config = (config - $4::text[]) || $3::jsonb where id = $1",
    [id, source, config, MEMBERS],
  );
}

/**
 * Gives a service another name; its objects on a cluster keep theirs. Returns since when it has it, which is later than of
 * any name before. Throws the violation of `services_name` when the name is taken.
 */
export function renameService(db: Db, id: string, name: string) {
  return one<{ namedAt: Timestamp }>(
    db,
    "service_rename",
    `update services set name = $2, object_name = coalesce(object_name, name),
       named_at = greatest(clock_timestamp(), coalesce(named_at, created_at) + interval '1 ms')
     where id = $1 returning named_at as "namedAt"`,
    [id, name],
  );
}

/** Gives a service a name that no other can have, until it gets its new one in the same transaction. */
export function setNameAside(db: Db, id: string) {
  return execute(
    db,
    "service_set_name_aside",
    "update services set name = '~' || id, object_name = coalesce(object_name, name) where id = $1",
    [id],
  );
}

/**
 * Writes replicas, autoscaling and size into the live deployment and into those under way, as they take effect without a deploy.
 * Returns how many deployments changed.
 */
export function rescale(db: Db, id: string, config: StoredConfig) {
  return execute(
    db,
    "service_rescale",
    `update deployments d set config = d.config - 'autoscaling' || $2::jsonb from services s
     where s.id = $1 and d.service_id = s.id
       and (d.version = s.live_version or d.status in ('queued', 'building', 'built'))
       and d.config <> d.config - 'autoscaling' || $2::jsonb`,
    [id, { replicas: config.replicas, size: config.size, autoscaling: config.autoscaling }],
  );
}

/** Requests one more roll of the live release. Returns 0 when nothing is live. */
export function rollLive(db: Db, id: string) {
  return execute(
    db,
    "service_roll",
    "update services set rolls = rolls + 1 where id = $1 and live_version is not null",
    [id],
  );
}

/** Takes services off the canvas. Addons become `provisioning`. */
export function unstage(db: Db, ids: string[]) {
  return execute(
    db,
    "service_unstage",
    `update services set staged = false, staged_archive = null, staged_digest = null, staged_image = null,
       addon_state = case when type in ('postgres', 'redis') then 'provisioning' end
     where id = any($1)`,
    [ids],
  );
}

/** Replaces what a staged service deploys when it is applied: an archive, an image, or without either its source. */
export function stage(db: Db, id: string, { archiveRef, archiveDigest, image }: StagedSource) {
  return execute(
    db,
    "service_stage",
    "update services set staged_archive = $2, staged_digest = $3, staged_image = $4 where id = $1",
    [id, archiveRef, archiveDigest, image],
  );
}
