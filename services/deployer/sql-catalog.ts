import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { count, type Db, maybe, rows } from "../kit/db.ts";
import type { AddonType } from "./addons/port.ts";
import type { StoredConfig, StoredSource } from "./service-config.ts";
import type { StatusFacts } from "./service-status.ts";

export type ProjectRow = { id: string; name: string; createdAt: Timestamp };
export type EnvironmentRow = { id: string; projectId: string; name: string; createdAt: Timestamp };
export type ServiceRow = StatusFacts & {
  id: string;
  name: string;
  type: string;
  source: StoredSource;
  config: StoredConfig;
  url?: string;
  liveVersion?: number;
  pendingChanges: boolean;
  createdAt: Timestamp;
  credentialsRotatedAt?: Timestamp;
};

const PROJECT = `id, name, created_at as "createdAt"`;
const ENVIRONMENT = `id, project_id as "projectId", name, created_at as "createdAt"`;

export function insertProject(db: Db, id: string, accountId: string, name: string) {
  return maybe<ProjectRow>(
    db,
    "project_insert",
    `insert into projects (id, account_id, name) values ($1, $2, $3)
     on conflict on constraint projects_name do nothing returning ${PROJECT}`,
    [id, accountId, name],
  );
}

export function projectById(db: Db, accountId: string, projectId: string) {
  return maybe<ProjectRow>(
    db,
    "project_get",
    `select ${PROJECT} from projects where id = $2 and account_id = $1 and deleting_at is null`,
    [accountId, projectId],
  );
}

/** Keeps the project from being deleted until the transaction ends. */
export function holdProject(db: Db, accountId: string, projectId: string) {
  return maybe<{ id: string }>(
    db,
    "project_hold",
    "select id from projects where id = $2 and account_id = $1 and deleting_at is null for share",
    [accountId, projectId],
  );
}

export function projectsPage(db: Db, accountId: string, before: string | undefined, limit: number) {
  return rows<ProjectRow>(
    db,
    "project_page",
    `select ${PROJECT} from projects
     where account_id = $1 and deleting_at is null and ($2::text is null or id < $2)
     order by id desc limit $3`,
    [accountId, before, limit],
  );
}

export function renameProject(db: Db, accountId: string, projectId: string, name: string) {
  return maybe<ProjectRow>(
    db,
    "project_rename",
    `update projects set name = $3 where id = $2 and account_id = $1 and deleting_at is null
     returning ${PROJECT}`,
    [accountId, projectId, name],
  );
}

export function insertEnvironment(db: Db, id: string, accountId: string, projectId: string, name: string) {
  return maybe<EnvironmentRow>(
    db,
    "environment_insert",
    `insert into environments (id, account_id, project_id, name) values ($1, $2, $3, $4)
     on conflict on constraint environments_name do nothing returning ${ENVIRONMENT}`,
    [id, accountId, projectId, name],
  );
}

const IN_PROJECT = `account_id = $1 and project_id = $2 and id = $3 and deleting_at is null`;

export function environmentById(db: Db, accountId: string, projectId: string, environmentId: string) {
  return maybe<EnvironmentRow>(
    db,
    "environment_get",
    `select ${ENVIRONMENT} from environments where ${IN_PROJECT}`,
    [accountId, projectId, environmentId],
  );
}

/** Keeps the environment from being deleted until the transaction ends. */
export function holdEnvironment(db: Db, accountId: string, projectId: string, environmentId: string) {
  return maybe<{ id: string }>(
    db,
    "environment_hold",
    `select id from environments where ${IN_PROJECT} for share`,
    [accountId, projectId, environmentId],
  );
}

export function environmentsPage(db: Db, projectId: string, before: string | undefined, limit: number) {
  return rows<EnvironmentRow>(
    db,
    "environment_page",
    `select ${ENVIRONMENT} from environments
     where project_id = $1 and deleting_at is null and ($2::text is null or id < $2)
     order by id desc limit $3`,
    [projectId, before, limit],
  );
}

export type NewService = {
  id: string;
  accountId: string;
  projectId: string;
  environmentId: string;
  name: string;
  type: string;
  source: StoredSource;
  config: StoredConfig;
  staged: boolean;
  addonState: "provisioning" | undefined;
};

/** Undefined when the name is taken. The service gets its row of work, due at once when it is an addon. */
export function insertService(db: Db, service: NewService) {
  return maybe<{ id: string }>(
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

// pendingChanges: a deploy now would run another configuration, source or set of variables.
const SERVICE = `
  select s.id, s.name, s.type, s.source, s.config, s.staged, s.url, s.created_at as "createdAt",
    s.deleting_at is not null as deleting, s.addon_state as "addonState", s.addon_message as "addonMessage",
    latest.status as "latestStatus", latest.error as "latestError", s.live_version as "appliedVersion",
    s.runtime_state as "runtimeState", s.runtime_message as "runtimeMessage",
    s.serving_version as "liveVersion", s.addon_rotated_at as "credentialsRotatedAt",
    live.version is not null and (s.pending_variables or live.source <> s.source
      or live.config - 'autoApply' <> s.config - 'autoApply') as "pendingChanges"
  from services s
  join environments e on e.id = s.environment_id and e.deleting_at is null
  left join deployments live on live.service_id = s.id and live.version = s.live_version
  left join lateral (
    select d.status, d.errors -> 0 ->> 'message' as error from deployments d
    where d.service_id = s.id order by d.version desc limit 1
  ) latest on true`;

export type ServicePath = { accountId: string; projectId: string; environmentId: string; service: string };

/** A service by its path. */
export function serviceByPath(db: Db, path: ServicePath) {
  return maybe<ServiceRow>(
    db,
    "service_get",
    `${SERVICE} where s.account_id = $1 and s.project_id = $2 and s.environment_id = $3 and s.name = $4`,
    [path.accountId, path.projectId, path.environmentId, path.service],
  );
}

export function servicesPage(db: Db, environmentId: string, before: string | undefined, limit: number) {
  return rows<ServiceRow>(
    db,
    "service_page",
    `${SERVICE} where s.environment_id = $1 and ($2::text is null or s.id < $2) order by s.id desc limit $3`,
    [environmentId, before, limit],
  );
}

export type LockedService = {
  id: string;
  accountId: string;
  environmentId: string;
  name: string;
  type: string;
  source: StoredSource;
  config: StoredConfig;
  staged: boolean;
  stagedArchive?: string;
  deleting: boolean;
};

const LOCKED = `
  select s.id, s.account_id as "accountId", s.environment_id as "environmentId", s.name, s.type, s.source,
    s.config, s.staged, s.staged_archive as "stagedArchive", s.deleting_at is not null as deleting
  from services s join environments e on e.id = s.environment_id and e.deleting_at is null`;

/** A service by its path, locked: its deployments, configuration and deletion wait for each other. */
export function lockService(db: Db, path: ServicePath) {
  return maybe<LockedService>(
    db,
    "service_lock",
    `${LOCKED} where s.account_id = $1 and s.project_id = $2 and s.environment_id = $3 and s.name = $4
     for no key update of s`,
    [path.accountId, path.projectId, path.environmentId, path.service],
  );
}

/** The staged services of an environment, oldest first, locked. */
export function lockStaged(db: Db, environmentId: string) {
  return rows<LockedService>(
    db,
    "service_lock_staged",
    `${LOCKED} where s.environment_id = $1 and s.staged and s.deleting_at is null
     order by s.id for no key update of s`,
    [environmentId],
  );
}

export function updateService(db: Db, id: string, source: StoredSource, config: StoredConfig) {
  return count(db, "service_update", "update services set source = $2, config = $3 where id = $1", [
    id,
    source,
    config,
  ]);
}

/** Replicas and size hold at once: for what is live, and for what is about to be. */
export function rescale(db: Db, id: string, config: StoredConfig) {
  return count(
    db,
    "service_rescale",
    `update deployments d set config = d.config || $2::jsonb from services s
     where s.id = $1 and d.service_id = s.id
       and (d.version = s.live_version or d.status in ('queued', 'building', 'built'))
       and not d.config @> $2::jsonb`,
    [id, { replicas: config.replicas, size: config.size }],
  );
}

/** Takes services off the canvas; addons begin to be provisioned. */
export function unstage(db: Db, ids: string[]) {
  return count(
    db,
    "service_unstage",
    `update services set staged = false, staged_archive = null,
       addon_state = case when type in ('postgres', 'redis') then 'provisioning' end
     where id = any($1)`,
    [ids],
  );
}

export function stageArchive(db: Db, id: string, archiveRef: string) {
  return count(db, "service_stage_archive", "update services set staged_archive = $2 where id = $1", [
    id,
    archiveRef,
  ]);
}

export type ScopeRow = {
  accountId: string;
  projectId: string;
  environmentId?: string;
  serviceId?: string;
  serviceName?: string;
  serviceType?: string;
};

const SCOPE = `
  select p.account_id as "accountId", p.id as "projectId", e.id as "environmentId", s.id as "serviceId",
    s.name as "serviceName", s.type as "serviceType"`;

/** The scopes of a path, as far as they exist; undefined when the project does not. */
export function scopeByPath(
  db: Db,
  path: { accountId: string; projectId: string; environmentId?: string; service?: string },
) {
  return maybe<ScopeRow>(
    db,
    "scope_by_path",
    `${SCOPE} from projects p
     left join environments e on e.project_id = p.id and e.id = $3 and e.deleting_at is null
     left join services s on s.environment_id = e.id and s.name = $4 and s.deleting_at is null
     where p.account_id = $1 and p.id = $2 and p.deleting_at is null`,
    [path.accountId, path.projectId, path.environmentId, path.service],
  );
}

export function scopeByService(db: Db, serviceId: string) {
  return maybe<ScopeRow>(
    db,
    "scope_by_service",
    `${SCOPE} from services s join environments e on e.id = s.environment_id
     join projects p on p.id = e.project_id where s.id = $1 and s.deleting_at is null`,
    [serviceId],
  );
}

export type AddonRow = {
  id: string;
  type: AddonType;
  environmentId: string;
  name: string;
  state?: string;
  secret?: Buffer;
  port?: number | null;
  revision: number;
};

export function addonById(db: Db, serviceId: string) {
  return maybe<AddonRow>(
    db,
    "addon_get",
    `select id, type, name, environment_id as "environmentId", addon_state as state, addon_secret as secret, addon_port as port,
       addon_revision as revision
     from services where id = $1 and deleting_at is null`,
    [serviceId],
  );
}
