import { DeploymentBuiltSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { ReleaseVariables } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { BuildFailure } from "../builder/build-failure.ts";
import {
  type Builder,
  BuildHandedOver,
  type BuildRequest,
  type BuildResult,
  buildSettings,
  defaultBuildLimits,
} from "../builder/port.ts";
import { toSiteVariables } from "../builder/site-variables.ts";
import { failDeployment } from "../deployments/fail-deployment.ts";
import * as transitions from "../deployments/transitions-sql.ts";
import { enqueue } from "../due/sql.ts";
import { findRelease, type ReleaseRow } from "../releases/sql.ts";
import type { Secrets } from "../secrets.ts";
import { imageRef } from "../terms/artifact.ts";
import { newNotice } from "../terms/notice.ts";
import type { ResolveVariables } from "../variables/variables-client.ts";
import { toBuildSource } from "./build-source.ts";
import { dropLog } from "./log-sql.ts";
import { type BuildLogWriter, writeBuildLog } from "./log-writer.ts";
import { recordProgress } from "./progress.ts";

export type BuildDeps = {
  pool: Pool;
  builder: Builder;
  secrets: Secrets;
  resolve: ResolveVariables;
  entitlementsOf: EntitlementsOf;
  log: Logger;
  /** Owner of this process's leases: only the holder's builds move a deployment. */
  owner: number;
};

/** A build whose deployment is `building`. */
export type BegunBuild = { release: ReleaseRow; variables: ReleaseVariables; output: BuildLogWriter };

/** Prepares the build of a deployment. Returns undefined when the deployment moved on or the lease was lost. */
export async function beginBuild(
  deps: BuildDeps,
  serviceId: string,
  deploymentId: string,
): Promise<BegunBuild | undefined> {
  const { pool, builder, log } = deps;
  const [release, variables] = await Promise.all([findRelease(pool, deploymentId), deps.resolve(serviceId)]);
  if (!release?.buildId) return undefined;
  if (!(await transitions.isBuilding(pool, deps.owner, deploymentId))) return undefined;
  log.info({ deploymentId }, "build begins");
  const continues = builder.resumes === true;
  // What another process began and this builder cannot resume starts over, with an empty log.
  if (!continues) {
    await builder.discard({ ...release, buildId: release.buildId });
    await dropLog(pool, deploymentId);
  }
  const secrets = variables.data.filter(({ sensitive }) => sensitive).map(({ value }) => value);
  const output = writeBuildLog(pool, deploymentId, secrets, log, continues);
  return { release, variables, output };
}

/**
 * Runs a build to its end and moves the deployment to `built` or `failed`. Returns `true` when the build broke for a
 * reason other than its source, so that it has to begin again. Never throws.
 */
export async function runBuild(deps: BuildDeps, build: BegunBuild, signal: AbortSignal): Promise<boolean> {
  const { pool, log } = deps;
  const { release, output } = build;
  const { deploymentId } = release;
  try {
    const result = await deps.builder.build(toBuildRequest(deps, build), signal);
    if (!(await finishBuild(deps, build, result))) await cleanUpHandedOver(deps, release);
    return false;
  } catch (error) {
    if (error instanceof BuildFailure) output.line(error.message);
    await output.close();
    if (error instanceof BuildFailure) {
      const failed = failDeployment(
        pool,
        log,
        deploymentId,
        newNotice(error.stage, error.code, error.message),
      );
      return failed.then(
        () => false,
        () => true,
      );
    }
    if (signal.reason instanceof BuildHandedOver) await cleanUpHandedOver(deps, release);
    if (signal.aborted) return false;
    log.error({ err: error, deploymentId }, "the build broke and begins again");
    return true;
  }
}

/** Commits the end of the log with the state `built`. Returns `false` when the deployment has moved on. */
async function finishBuild(
  { pool, owner, log }: BuildDeps,
  { release: { deploymentId }, output }: BegunBuild,
  { artifact, commit, buildpacks }: BuildResult,
): Promise<boolean> {
  const built = { deploymentId, artifact, image: imageRef(artifact), commit, buildpacks };
  await output.drain();
  const moved = await transaction(pool, async (tx) => {
    await output.close(tx);
    const row = await transitions.finishBuild(tx, owner, built);
    if (row) await emit(tx, DeploymentBuiltSchema, row.accountId, { ...row, deploymentId });
    return row;
  });
  log.info({ deploymentId }, moved ? "built" : "built too late; what was built is discarded");
  return moved !== undefined;
}

/**
 * Cleans up after a build that was taken from this process: no other one resumes it once its deployment has ended, and
 * one that cleaned up may have done so before this build wrote its last.
 */
async function cleanUpHandedOver(
  { pool, builder, log }: BuildDeps,
  { deploymentId, serviceId, accountId, buildId }: ReleaseRow,
): Promise<void> {
  try {
    const status = await transitions.markLeftover(pool, deploymentId);
    if (status === undefined) await builder.discard({ buildId: buildId!, accountId });
    else if (status === "failed" || status === "superseded") await enqueue(pool, [serviceId]);
  } catch (error) {
    log.warn({ err: error, deploymentId }, "the output of a build that was handed over could not be removed");
  }
}

function toBuildRequest(deps: BuildDeps, { release, variables, output }: BegunBuild): BuildRequest {
  const { deploymentId, buildId, accountId, serviceId, type, config } = release;
  const startedMs = release.buildStartedMs ?? Date.now();
  return {
    buildId: buildId!,
    accountId,
    serviceId,
    type,
    source: toBuildSource(release, variables, deps.secrets),
    limits: defaultBuildLimits,
    ...buildSettings(config),
    port: config.port ?? 8080,
    site: toSiteVariables(variables.data, config.env),
    timeoutMs: Math.max(1, startedMs + deps.entitlementsOf(release.tier).buildMs - Date.now()),
    ...recordProgress(deps.pool, deploymentId, deps.log),
    log: output.line,
  };
}
