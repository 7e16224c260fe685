import {
  DeploymentAppliedSchema,
  ReleaseHealthySchema,
  ReleaseUnhealthySchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { failDeployment, newNotice } from "../deployments/fail-deployment.ts";
import { expireArtifacts } from "../deployments/retention-sql.ts";
import * as moves from "../deployments/transitions-sql.ts";
import { sealDigests } from "../deployments/variable-digests.ts";
import type { AccountImages } from "../images/account-images.ts";
import { type Release, type Runtime, RuntimeRefusal, type RuntimeStatus } from "../runtime/port.ts";
import type { Secrets } from "../secrets.ts";
import { recordUsage } from "../usage/intervals.ts";
import * as sql from "./sql.ts";
import { type ResolvedVariables, type ResolveVariables, VariablesUnavailable } from "./variables-client.ts";

export type ReleasesDeps = {
  pool: Pool;
  runtime: Runtime;
  resolve: ResolveVariables;
  secrets: Secrets;
  images: AccountImages;
  log: Logger;
  owner: number;
  /** Where the runtime has no own idea: 1 s on one machine, 10 s on a cluster. */
  minReadySeconds: number;
};

export type Releases = ReturnType<typeof createReleases>;

/** Brings releases into the runtime, and what the runtime does into the database. */
export function createReleases(deps: ReleasesDeps) {
  const { pool, runtime, secrets, log, owner } = deps;

  /** Applies a deployment (docs/deployments.md#states); `false` when it is not the newest any more. */
  async function apply(serviceId: string, deploymentId: string): Promise<boolean> {
    // The row before the variables: what is marked as changed after it was read is compared again.
    const row = await sql.findRelease(pool, deploymentId);
    if (!row || (row.status !== "queued" && row.status !== "built")) return false;
    const [begun, resolved] = await Promise.all([
      moves.beginApply(pool, deploymentId),
      resolveFor(serviceId, deploymentId),
    ]);
    if (begun === 0) return false;
    if (await waitsFor(row, resolved)) return true;
    const revision = await revisionOf(row, resolved);
    if (revision === undefined) return false;
    const applied = await underLock(serviceId, revision, async (tx) => {
      const moved = await moves.markApplied(tx, deploymentId);
      if (!moved) return false;
      await noteApplied(tx, row, resolved, revision);
      await emit(tx, DeploymentAppliedSchema, moved.accountId, { ...moved, deploymentId });
      // Last: what the runtime was told cannot be rolled back, but it is told again after a crash.
      await tellRuntime(tx, row, resolved, revision);
      return true;
    }).catch(async (error) => {
      if (!(error instanceof RuntimeRefusal)) throw error;
      await failDeployment(pool, log, deploymentId, newNotice("apply", error.code, error.message));
      return undefined;
    });
    if (applied) log.info({ deploymentId, version: row.version, revision }, "applied");
    return applied !== false;
  }

  /** Whether it is to wait for addons that are still being made: the plan looks again when they are there. */
  async function waitsFor(
    { deploymentId }: sql.ReleaseRow,
    { missing }: ResolvedVariables,
  ): Promise<boolean> {
    const awaits = missing.length > 0 && (await sql.awaitAddons(pool, owner, deploymentId, missing));
    if (!awaits) return false;
    const message = `It waits for addons that its variables name and that are being made: ${awaits.join(", ")}.`;
    const waits = newNotice("resolve", "waiting_for_addon", message);
    await moves.setWarnings(pool, deploymentId, "resolve", [waits]);
    return true;
  }

  /** Applies the live release again with the variables of now. */
  async function reapplyLive(serviceId: string): Promise<boolean> {
    const row = await sql.findLiveRelease(pool, serviceId);
    if (!row) return false;
    return reapply(row, await deps.resolve(serviceId));
  }

  /** Compares the variables with the applied ones, and applies the live release again if they changed. */
  async function compareVariables(serviceId: string): Promise<boolean> {
    const row = await sql.findLiveRelease(pool, serviceId);
    if (!row) return false;
    const resolved = await deps.resolve(serviceId);
    const changed = resolved.fingerprint !== row.fingerprint || row.revision !== row.appliedRevision;
    if (changed && row.autoApply) return reapply(row, resolved);
    await sql.recordComparison(pool, serviceId, changed, row.dirtyAt);
    return true;
  }

  /** Brings the live release to the replicas and size that its service has now, without a new release. */
  function scale(serviceId: string): Promise<boolean> {
    return underLock(serviceId, undefined, async (tx, liveVersion) => {
      const row = await sql.findLiveRelease(tx, serviceId);
      if (!row || row.version !== liveVersion) return false;
      const { replicas = 1, size } = row.config;
      await runtime.scale(serviceId, row.version, { replicas, size });
      log.info({ serviceId, replicas, size }, "scaled");
      return true;
    });
  }

  /** Rolls the live release as often as users asked for it. */
  function roll(serviceId: string): Promise<boolean> {
    return underLock(serviceId, undefined, async (tx, liveVersion) => {
      const row = await sql.findLiveRelease(tx, serviceId);
      if (!row || row.version !== liveVersion) return false;
      await runtime.roll(serviceId, row.version, row.rolls);
      log.info({ serviceId, version: row.version, rolls: row.rolls }, "rolled");
      return true;
    });
  }

  async function reapply(row: sql.ReleaseRow, resolved: ResolvedVariables): Promise<boolean> {
    const { serviceId, deploymentId, version } = row;
    const revision = await revisionOf(row, resolved);
    if (revision === undefined) return false;
    return underLock(serviceId, revision, async (tx, liveVersion) => {
      if (liveVersion !== version) return false;
      await noteApplied(tx, row, resolved, revision);
      await tellRuntime(tx, row, resolved, revision);
      log.info({ deploymentId, version, revision }, "applied again");
      return true;
    }).catch(async (error) => {
      if (!(error instanceof RuntimeRefusal)) throw error;
      log.warn({ deploymentId, code: error.code }, "the live release cannot be applied again");
      await sql.recordUnappliable(pool, serviceId, error.message);
      return false;
    });
  }

  /** Records what the runtime does with the live release. */
  async function recordStatus(status: RuntimeStatus): Promise<void> {
    const { serviceId, version, state, reason, healthySince } = status;
    const code = reason ?? state;
    await transaction(pool, async (tx) => {
      const before = await sql.recordStatus(tx, owner, status);
      if (!before) return;
      await recordUsage(tx, serviceId, status.usage);
      const { accountId } = before;
      const healthy = healthySince && (await moves.markHealthy(tx, serviceId, version, healthySince));
      if (healthy) {
        await emit(tx, ReleaseHealthySchema, accountId, { accountId, serviceId, version });
        await expireArtifacts(tx, serviceId);
      }
      if (state !== "degraded" && state !== "crashed") return;
      if (reason && reason !== "replica_ended")
        await moves.addWarning(tx, serviceId, version, newNotice("rollout", code, status.message ?? code));
      if (before.state !== state || before.reason !== (reason ?? null))
        await emit(tx, ReleaseUnhealthySchema, accountId, { accountId, serviceId, version, code });
    });
  }

  async function tellRuntime(tx: Tx, row: sql.ReleaseRow, resolved: ResolvedVariables, revision: number) {
    await deps.images.requireToRun(tx, row.accountId, row.artifact);
    await runtime.apply(releaseFor(row, resolved, revision));
  }

  /** Committed before the runtime hears of it; the same variables keep theirs. */
  async function revisionOf(
    row: sql.ReleaseRow,
    { fingerprint }: ResolvedVariables,
  ): Promise<number | undefined> {
    if (row.fingerprint === fingerprint) return row.revision;
    return sql.assignRevision(pool, owner, row.serviceId, fingerprint);
  }

  async function noteApplied(tx: Tx, row: sql.ReleaseRow, resolved: ResolvedVariables, revision: number) {
    const marks = sealDigests(secrets, row.serviceId, resolved.values);
    await sql.recordRelease(tx, { ...row, revision }, marks);
    if (row.noted || resolved.dangling.length > 0)
      await moves.setWarnings(tx, row.deploymentId, "resolve", resolved.dangling);
  }

  async function resolveFor(serviceId: string, deploymentId: string): Promise<ResolvedVariables> {
    return deps.resolve(serviceId).catch(async (error) => {
      if (error instanceof VariablesUnavailable)
        await moves.setWarnings(pool, deploymentId, "resolve", [
          newNotice("resolve", "variables_unavailable", error.message),
        ]);
      throw error;
    });
  }

  /**
   * Runs `work` while the service cannot change and this process holds its lease; else `false`. `revision`
   * is the one that it is for: another process that held the lease meanwhile may have given a newer one.
   */
  function underLock(
    serviceId: string,
    revision: number | undefined,
    work: (tx: Tx, liveVersion?: number) => Promise<boolean>,
  ) {
    return transaction(pool, async (tx) => {
      const held = await sql.lockWhileLeased(tx, owner, serviceId);
      if (!held) return false;
      if (revision !== undefined && revision !== held.revision)
        throw new Error("the variables changed meanwhile");
      return work(tx, held.liveVersion);
    });
  }

  function releaseFor(row: sql.ReleaseRow, resolved: ResolvedVariables, revision: number): Release {
    const { config } = row;
    const port = config.port ?? 8080;
    return {
      serviceId: row.serviceId,
      accountId: row.accountId,
      projectId: row.projectId,
      environmentId: row.environmentId,
      names: { project: row.project, environment: row.environment, service: row.service },
      type: row.type,
      version: row.version,
      revision,
      ...(row.rolls > 0 && { rolls: row.rolls }),
      artifact: row.artifact ?? "",
      command: config.command,
      port,
      replicas: config.replicas ?? 1,
      size: config.size,
      healthCheckPath: config.healthCheckPath,
      minReadySeconds: config.minReadySeconds ?? deps.minReadySeconds,
      env: {
        ...config.env,
        ...resolved.values,
        PORT: String(port),
        PLATFORM_VARIABLES_REVISION: String(revision),
      },
      sensitive: resolved.sensitive,
    };
  }

  return { apply, reapplyLive, compareVariables, scale, roll, recordStatus };
}
