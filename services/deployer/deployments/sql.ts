import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { NoticeSchema } from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { type Db, many, one } from "../../kit/postgres/db.ts";
import type { StoredSource } from "../sources/stored-source.ts";
import type { StoredNotice } from "../terms/notice.ts";
import type { StoredConfig } from "../terms/stored-config.ts";

export type Notice = MessageInitShape<typeof NoticeSchema>;

/** Who made a deployment (docs/deployments.md#versions). */
export type DeploymentActor = { kind: string; id: string; tokenId?: string };

export type DeploymentRow = {
  id: string;
  serviceId: string;
  version: number;
  image?: string;
  buildId?: string;
  branch?: string;
  commit?: string;
  archiveRef?: string;
  status: string;
  buildStage?: string;
  errors: Notice[];
  warnings: Notice[];
  createdAt: Timestamp;
  buildStartedAt?: Timestamp;
  builtAt?: Timestamp;
  appliedAt?: Timestamp;
  healthyAt?: Timestamp;
  finishedAt?: Timestamp;
  builtVersion?: number;
  buildpacks: string[];
  createdBy?: DeploymentActor;
};

// A rollback has the source of what it runs too, for later ones, but was not built from it.
const ofBuild = (column: string) => `case when d.build_id is not null then ${column} end`;

export const DEPLOYMENT = `d.id, d.service_id as "serviceId", d.version, d.image, d.build_id as "buildId",
  ${ofBuild("d.branch")} as branch, ${ofBuild("d.commit")} as commit, ${ofBuild("d.archive_ref")} as "archiveRef",
  d.built_version as "builtVersion", coalesce(d.buildpacks, '[]') as buildpacks, d.status, d.build_stage as "buildStage", d.errors, d.warnings,
  d.created_at as "createdAt", d.build_started_at as "buildStartedAt", d.built_at as "builtAt",
  d.applied_at as "appliedAt", d.healthy_at as "healthyAt", d.finished_at as "finishedAt",
  d.created_by as "createdBy"`;

/** A row as selected, with its errors and warnings as stored. */
export type StoredDeployment = Omit<DeploymentRow, "errors" | "warnings"> & {
  errors: StoredNotice[];
  warnings: StoredNotice[];
};

const UNDER_WAY = "('queued', 'building', 'built')";

export function toMessage(row: StoredDeployment): DeploymentRow {
  return { ...row, errors: toNotices(row.errors), warnings: toNotices(row.warnings) };
}

export function toNotices(notices: StoredNotice[]): Notice[] {
  return notices.map((notice) => ({ ...notice, at: timestampFromMs(Date.parse(notice.at)) }));
}

/**
 * SQL that takes the next version of a service. Versions have no gaps, as the row stays locked until the transaction
 * ends.
 */
export const takeVersion = (service: string) =>
  `update services set next_version = next_version + 1 where id = ${service} returning next_version - 1 as version`;

/** Supersedes the deployments of the service that have not applied. Returns them. */
export function supersede(db: Db, serviceId: string) {
  return many<{ id: string; version: number }>(
    db,
    "deployment_supersede",
    `update deployments set status = 'superseded', finished_at = now(), build_stage = null
     where service_id = $1 and status in ${UNDER_WAY} returning id, version`,
    [serviceId],
  );
}

export type NewDeployment = {
  id: string;
  serviceId: string;
  config: StoredConfig;
  source: StoredSource;
  image?: string;
  artifact?: string;
  buildId?: string;
  archiveRef?: string;
  archiveDigest?: string;
  branch?: string;
  builtVersion?: number;
  warnings: StoredNotice[];
  createdBy: DeploymentActor;
};

/** SQL for the version whose build a deployment runs. */
export const builtVersion = (deployment: string) =>
  `coalesce(${deployment}.built_version, case when ${deployment}.build_id is not null then ${deployment}.version end)`;

/** Inserts a deployment as the next version of its service. */
export async function insertDeployment(db: Db, deployment: NewDeployment): Promise<DeploymentRow> {
  const row = await one<StoredDeployment>(
    db,
    "deployment_insert",
    `with taken as (${takeVersion("$2")})
     insert into deployments as d
       (id, service_id, version, status, config, source, image, artifact, build_id, archive_ref, branch, archive_digest,
        built_version, warnings, created_by, release_command)
     select $1, $2, version, 'queued', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $3::jsonb ->> 'releaseCommand'
     from taken returning ${DEPLOYMENT}`,
    [
      deployment.id,
      deployment.serviceId,
      deployment.config,
      deployment.source,
      deployment.image,
      deployment.artifact,
      deployment.buildId,
      deployment.archiveRef,
      deployment.branch,
      deployment.archiveDigest,
      deployment.builtVersion,
      JSON.stringify(deployment.warnings),
      deployment.createdBy,
    ],
  );
  return toMessage(row!);
}

const WAITING = `from deployments d join services s on s.id = d.service_id
     where d.status = 'queued' and d.build_id is not null and not s.staged and s.deleting_at is null`;

/** Returns how many builds have not begun. */
export async function countWaitingBuilds(db: Db): Promise<number> {
  const text = `select count(*)::int as count ${WAITING}`;
  return (await one<{ count: number }>(db, "deployments_waiting", text))!.count;
}

/** Returns how long, in seconds, the oldest build waits of the accounts that build nothing meanwhile; 0 when none does. */
export async function oldestWaitingBuild(db: Db): Promise<number> {
  const row = await one<{ seconds: number }>(
    db,
    "deployments_waiting_oldest",
    `select coalesce(extract(epoch from now() - min(d.created_at)), 0)::float8 as seconds ${WAITING}
     and not exists (select from deployments b join services t on t.id = b.service_id
       where b.status = 'building' and t.account_id = s.account_id)`,
  );
  return row!.seconds;
}

/** Returns what the live release runs, and which version built it. */
export function findLiveArtifact(db: Db, serviceId: string) {
  return one<{ artifact: string; image?: string; builtVersion?: number }>(
    db,
    "deployment_live_artifact",
    `select d.artifact, d.image, ${builtVersion("d")} as "builtVersion" from deployments d join services s on s.id = d.service_id
     where s.id = $1 and d.version = s.live_version`,
    [serviceId],
  );
}

export async function findDeployment(db: Db, serviceId: string, version: number) {
  const row = await one<StoredDeployment>(
    db,
    "deployment_get",
    `select ${DEPLOYMENT} from deployments d where d.service_id = $1 and d.version = $2`,
    [serviceId, version],
  );
  return row && toMessage(row);
}

/** Whether a deployment has a release command, whose output is in its build log. */
export async function hasReleaseCommand(db: Db, deploymentId: string): Promise<boolean> {
  const text = "select id from deployments where id = $1 and release_command is not null";
  return (await one(db, "deployment_has_command", text, [deploymentId])) !== undefined;
}

/** Returns the versions below `before`, newest first. */
export async function listDeployments(db: Db, serviceId: string, before: number | undefined, limit: number) {
  const found = await many<StoredDeployment>(
    db,
    "deployment_page",
    `select ${DEPLOYMENT} from deployments d
     where d.service_id = $1 and d.version < coalesce($2::int, 2147483647) order by d.version desc limit $3`,
    [serviceId, before, limit],
  );
  return found.map(toMessage);
}
