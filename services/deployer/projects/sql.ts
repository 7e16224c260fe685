import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, many, one } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import type { AddonType } from "../terms/services.ts";
import type { EnvironmentPath, ServicePath } from "./services-sql.ts";

// Projects and environments, and the scopes that other services ask for.

export type ProjectRow = { id: string; name: string; createdAt: Timestamp };
export type EnvironmentRow = { id: string; projectId: string; name: string; createdAt: Timestamp };

const PROJECT = `id, name, created_at as "createdAt"`;
const ENVIRONMENT = `id, project_id as "projectId", name, created_at as "createdAt"`;

export function insertProject(db: Db, id: string, accountId: string, name: string) {
  return one<ProjectRow>(
    db,
    "project_insert",
    `insert into projects (id, account_id, name) values ($1, $2, $3)
     on conflict on constraint projects_name do nothing returning ${PROJECT}`,
    [id, accountId, name],
  );
}

export function findProject(db: Db, accountId: string, projectId: string) {
  return one<ProjectRow>(
    db,
    "project_get",
    `select ${PROJECT} from projects where id = $2 and account_id = $1 and deleting_at is null`,
    [accountId, projectId],
  );
}

/** Keeps a project from being deleted until the transaction ends. Returns undefined when there is none. */
export function holdProject(db: Db, accountId: string, projectId: string) {
  return one<{ id: string }>(
    db,
    "project_hold",
    "select id from projects where id = $2 and account_id = $1 and deleting_at is null for share",
    [accountId, projectId],
  );
}

export function listProjects(db: Db, accountId: string, before: string | undefined, limit: number) {
  return many<ProjectRow>(
    db,
    "project_page",
    `select ${PROJECT} from projects
     where account_id = $1 and deleting_at is null and ${isBelow("id", "$2")}
     order by id desc limit $3`,
    [accountId, before, limit],
  );
}

/** As `renameEnvironment`. */
export function renameProject(db: Db, accountId: string, projectId: string, name: string) {
  return one<ProjectRow & { formerName: string }>(
    db,
    "project_rename",
    `with held as (
       select id as held_id, name as former from projects
       where id = $2 and account_id = $1 and deleting_at is null for no key update)
     update projects set name = $3 from held where id = held_id returning ${PROJECT}, former as "formerName"`,
    [accountId, projectId, name],
  );
}

export function insertEnvironment(db: Db, id: string, accountId: string, projectId: string, name: string) {
  return one<EnvironmentRow>(
    db,
    "environment_insert",
    `insert into environments (id, account_id, project_id, name) values ($1, $2, $3, $4)
     on conflict on constraint environments_name do nothing returning ${ENVIRONMENT}`,
    [id, accountId, projectId, name],
  );
}

const IN_PROJECT = "account_id = $1 and project_id = $2 and id = $3 and deleting_at is null";

export function findEnvironment(db: Db, accountId: string, projectId: string, environmentId: string) {
  return one<EnvironmentRow>(
    db,
    "environment_get",
    `select ${ENVIRONMENT} from environments where ${IN_PROJECT}`,
    [accountId, projectId, environmentId],
  );
}

/** Returns it with its former name; undefined when there is none. Throws the violation of `environments_name` when the name is taken. */
export function renameEnvironment(
  db: Db,
  path: { accountId: string; projectId: string; environmentId: string },
  name: string,
) {
  return one<EnvironmentRow & { formerName: string }>(
    db,
    "environment_rename",
    `with held as (
       select id as held_id, name as former from environments where ${IN_PROJECT} for no key update)
     update environments set name = $4 from held where id = held_id
     returning ${ENVIRONMENT}, former as "formerName"`,
    [path.accountId, path.projectId, path.environmentId, name],
  );
}

/**
 * Keeps others from creating or renaming services of an environment until the transaction ends: whoever creates one looks
 * what the renamed ones are called on a cluster.
 */
export function lockNames(db: Db, path: EnvironmentPath) {
  return one<{ id: string }>(
    db,
    "environment_lock_names",
    `select id from environments where ${IN_PROJECT} for no key update`,
    [path.accountId, path.projectId, path.environmentId],
  );
}

/** Keeps an environment from being deleted until the transaction ends. Returns undefined when there is none. */
export function holdEnvironment(db: Db, accountId: string, projectId: string, environmentId: string) {
  return one<{ id: string }>(
    db,
    "environment_hold",
    `select id from environments where ${IN_PROJECT} for share`,
    [accountId, projectId, environmentId],
  );
}

export function listEnvironments(db: Db, projectId: string, before: string | undefined, limit: number) {
  return many<EnvironmentRow>(
    db,
    "environment_page",
    `select ${ENVIRONMENT} from environments
     where project_id = $1 and deleting_at is null and ${isBelow("id", "$2")}
     order by id desc limit $3`,
    [projectId, before, limit],
  );
}

export type ScopeRow = {
  accountId: string;
  projectId: string;
  environmentId?: string;
  serviceId?: string;
  serviceName?: string;
  serviceType?: string;
  hasConfigEnv: boolean;
  namedAt?: Timestamp;
};

const SCOPE = `
  select p.account_id as "accountId", p.id as "projectId", e.id as "environmentId", s.id as "serviceId",
    s.name as "serviceName", s.type as "serviceType", coalesce(s.config -> 'env' <> '{}', false) as "hasConfigEnv",
    coalesce(s.named_at, s.created_at) as "namedAt"`;

/** Returns the scopes of a path that exist, or undefined when not even its project does. */
export function findScopeByPath(
  db: Db,
  path: Pick<ServicePath, "accountId" | "projectId"> & Partial<ServicePath>,
) {
  return one<ScopeRow>(
    db,
    "scope_by_path",
    `${SCOPE} from projects p
     left join environments e on e.project_id = p.id and e.id = $3 and e.deleting_at is null
     left join services s on s.environment_id = e.id and s.name = $4 and s.deleting_at is null
     where p.account_id = $1 and p.id = $2 and p.deleting_at is null`,
    [path.accountId, path.projectId, path.environmentId, path.service],
  );
}

export function findScopeByService(db: Db, serviceId: string) {
  return one<ScopeRow>(
    db,
    "scope_by_service",
    `${SCOPE} from services s join environments e on e.id = s.environment_id
     join projects p on p.id = e.project_id where s.id = $1 and s.deleting_at is null`,
    [serviceId],
  );
}

/** Returns `config.env` of a service, and the revision of its configuration. */
export function findServiceEnv(db: Db, serviceId: string) {
  return one<{ env: Record<string, string>; revision: number }>(
    db,
    "service_env",
    `select coalesce(config -> 'env', '{}') as env, config_revision as revision from services
     where id = $1 and deleting_at is null`,
    [serviceId],
  );
}

type ServiceDescriptionRow = {
  accountId: string;
  projectId: string;
  projectName: string;
  environmentId: string;
  environmentName: string;
  serviceName: string;
  url?: string;
  servingVersion?: number;
};

/** Returns the names around a service that is not being deleted. */
export function describeService(db: Db, serviceId: string) {
  return one<ServiceDescriptionRow>(
    db,
    "service_describe",
    `select s.account_id as "accountId", p.id as "projectId", p.name as "projectName", e.id as "environmentId",
       e.name as "environmentName", s.name as "serviceName", s.url, s.serving_version as "servingVersion"
     from services s join environments e on e.id = s.environment_id join projects p on p.id = e.project_id
     where s.id = $1 and s.deleting_at is null`,
    [serviceId],
  );
}

/** Returns the web, worker and cron services of a project, or of one of its environments, newest first. */
export function listScopeServices(db: Db, projectId: string, environmentId: string | undefined) {
  return many<{ id: string; name: string; environmentId: string }>(
    db,
    "services_under",
    `select id, name, environment_id as "environmentId" from services
     where project_id = $1 and ($2::text is null or environment_id = $2) and type in ('web', 'worker', 'cron')
       and deleting_at is null order by id desc`,
    [projectId, environmentId],
  );
}

export type AddonRow = {
  id: string;
  type: AddonType;
  environmentId: string;
  /** As in `Addon`. */
  name: string;
  state?: string;
  secret?: Buffer;
  port?: number | null;
  revision: number;
  /** Whether its keys lead through its pooler. */
  pooled: boolean;
};

export function findAddon(db: Db, serviceId: string) {
  return one<AddonRow>(
    db,
    "addon_get",
    `select id, type, coalesce(object_name, name) as name, environment_id as "environmentId", addon_state as state,
       addon_secret as secret, addon_port as port, addon_revision as revision,
       coalesce(addon_pooler_revision = addon_revision, false) as pooled
     from services where id = $1 and deleting_at is null`,
    [serviceId],
  );
}
