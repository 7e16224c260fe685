import type { EntitlementsOf } from "../../kit/plans.ts";
import { type Db, many, one, type Pool, transaction } from "../../kit/postgres/db.ts";
import { planAmount, toPlanAmounts } from "../accounts/plan-amounts.ts";
import { enqueue } from "../due/sql.ts";
import { digestOf } from "../images/sql.ts";
import type { StoredNotice } from "../terms/notice.ts";
import type { StoredConfig } from "../terms/stored-config.ts";
import {
  builtVersion,
  DEPLOYMENT,
  type DeploymentActor,
  type DeploymentRow,
  type StoredDeployment,
  takeVersion,
  toMessage,
} from "./sql.ts";

// Versions that can be rolled back to, and the expiry of their artifacts.

/** What a rollback has to know of a version. */
export type RetainedVersion = {
  deploymentId: string;
  version: number;
  config: StoredConfig;
  image?: string;
  archiveRef?: string;
  artifact?: string;
  wasLive: boolean;
  current: boolean;
  /** Its artifact is being removed. */
  expired: boolean;
  /** Number of newer versions that were live, counted up to 1000. */
  newer: number;
};

export function findRetainedVersion(db: Db, serviceId: string, version: number) {
  return one<RetainedVersion>(
    db,
    "history_version",
    `select d.id as "deploymentId", d.version, d.config, d.image, d.archive_ref as "archiveRef", d.artifact,
       d.healthy_at is not null as "wasLive", d.version = s.live_version as current, d.leftover as expired,
       (select count(*)::int from (select from deployments n where n.service_id = d.service_id
          and n.healthy_at is not null and n.version > d.version limit 1000) counted) as newer
     from deployments d join services s on s.id = d.service_id where d.service_id = $1 and d.version = $2`,
    [serviceId, version],
  );
}

/** Inserts a deployment of what another one ran, as the next version of its service. Nothing is built, so it has no build id. */
export async function insertRestored(
  db: Db,
  restored: {
    id: string;
    serviceId: string;
    from: string;
    warnings: StoredNotice[];
    createdBy: DeploymentActor;
  },
): Promise<DeploymentRow> {
  const row = await one<StoredDeployment>(
    db,
    "deployment_restore",
    `with taken as (${takeVersion("$2")})
     insert into deployments as d
       (id, service_id, version, status, config, source, image, artifact, archive_ref, branch, "commit", built_version,
        warnings, created_by)
     select $1, o.service_id, t.version, 'queued', o.config, o.source, o.image, o.artifact, o.archive_ref, o.branch,
       o."commit", ${builtVersion("o")}, $4, $5
     from deployments o, taken t where o.id = $3 returning ${DEPLOYMENT}`,
    [restored.id, restored.serviceId, restored.from, JSON.stringify(restored.warnings), restored.createdBy],
  );
  return toMessage(row!);
}

// Marks artifacts of versions that were replaced before they were ever live, or that the plan does not retain. Images
// that no build of the account pushed are not the platform's to remove. `held` locks services against rollbacks.
const expiring = (which: string) => `
  with held as (
    select s.id, s.account_id, s.live_version, s.serving_version,
      ${planAmount("$1", "s.account_id")} as depth
    from services s where s.deleting_at is null and ${which}),
  kept as (
    select h.*, (select n.version from deployments n where n.service_id = h.id and n.healthy_at is not null
       order by n.version desc offset h.depth limit 1) as beyond
    from held h)
  update deployments d set leftover = true from kept k
  where d.service_id = k.id and d.status = 'applied' and d.artifact is not null and not d.leftover
    and d.version < k.live_version and d.version is distinct from k.serving_version
    and (d.healthy_at is null or d.version <= k.beyond)
    and (d.artifact not like 'image:%' or exists (select from built_images b
      where b.account_id = k.account_id and b.digest = ${digestOf("d.artifact")}))
  returning d.service_id as "serviceId"`;

const depthsOf = (entitlementsOf: EntitlementsOf) =>
  toPlanAmounts(entitlementsOf, ({ historyDepth }) => historyDepth);

/** Marks the artifacts of a locked service that are not retained, for removal by the reconciler. */
export async function expireArtifacts(
  db: Db,
  entitlementsOf: EntitlementsOf,
  serviceId: string,
): Promise<void> {
  await many(db, "history_expire", expiring("s.id = $2"), [depthsOf(entitlementsOf), serviceId]);
}

/** The same for all services except locked ones, as plans change without a deployment. */
export async function expireAllArtifacts(pool: Pool, entitlementsOf: EntitlementsOf): Promise<void> {
  await transaction(pool, async (tx) => {
    const text = expiring("s.live_version is not null for no key update of s skip locked");
    const found = await many<{ serviceId: string }>(tx, "history_expire_all", text, [
      depthsOf(entitlementsOf),
    ]);
    await enqueue(tx, [...new Set(found.map((row) => row.serviceId))]);
  });
}

/** What the live release runs, with the sealed digests of its variables. */
export type LiveVersion = {
  config: StoredConfig;
  artifact?: string;
  image?: string;
  archiveRef?: string;
  variables?: Buffer;
};

export function findLiveVersion(db: Db, serviceId: string) {
  return one<LiveVersion>(
    db,
    "history_live",
    `select d.config, d.artifact, d.image, s.applied_variables as variables,
       coalesce(d.archive_ref, b.archive_ref) as "archiveRef"
     from services s join deployments d on d.service_id = s.id and d.version = s.live_version
     left join deployments b on b.service_id = s.id and b.version = d.built_version where s.id = $1`,
    [serviceId],
  );
}
