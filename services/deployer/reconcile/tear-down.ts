import { isDeepStrictEqual } from "node:util";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Addons } from "../addons/lifecycle.ts";
import type { Builder } from "../builder/port.ts";
import { markDiscarded } from "../deployments/transitions-sql.ts";
import { wakeClaimsOn } from "../domains/sql.ts";
import { releaseArtifact } from "../images/account-images.ts";
import { removeRunsOf } from "../jobs/move-runs.ts";
import {
  type BuildOutput,
  listBuildOutputs,
  lockDeployments,
  pruneEnvironment,
  removeService,
} from "../projects/deletion-sql.ts";
import type { Runtime } from "../runtime/port.ts";
import { archivePrefix, dumpPrefix } from "../secrets.ts";
import type { ObjectStore } from "../store/port.ts";
import type { AddonToRemove, Leftover } from "./plan.ts";

export type TearDownDeps = {
  pool: Pool;
  runtime: Runtime;
  builder: Builder;
  store: ObjectStore;
  addons: Addons;
  log: Logger;
};

/** Removes everything that belongs to a deleted service, and its rows last. */
export async function tearDown(
  deps: TearDownDeps,
  serviceId: string,
  addon: AddonToRemove | undefined,
): Promise<void> {
  // An addon has no releases and no builds: its removal does not wait for the registry.
  if (addon) await deps.addons.remove({ serviceId, ...addon });
  if (addon) await deps.store.removePrefix(dumpPrefix(serviceId));
  const removed = addon ? [] : await removeReleases(deps, serviceId);
  await transaction(deps.pool, async (tx) => {
    await refuseLateBuilds(tx, serviceId, removed);
    // Before its own domains are locked: those that wake it as well may hold theirs.
    await wakeClaimsOn(tx, serviceId);
    const service = await removeService(tx, serviceId);
    if (service) await pruneEnvironment(tx, service);
  });
  deps.log.info({ serviceId }, "service removed");
}

/** Removes what an ended build or an expired release left, unless another deployment runs it. */
export async function discard(deps: TearDownDeps, serviceId: string, left: Leftover): Promise<void> {
  await removeBuilt(deps, serviceId, left, left.deploymentId);
  await markDiscarded(deps.pool, left.deploymentId);
}

async function removeBuilt(
  { pool, builder }: TearDownDeps,
  serviceId: string,
  { accountId, buildId, artifact }: BuildOutput,
  deploymentId?: string,
): Promise<void> {
  const builtBy = artifact ? await releaseArtifact(pool, serviceId, artifact, deploymentId) : serviceId;
  if (builtBy === undefined) return;
  if (buildId) await builder.discard({ buildId, accountId });
  if (artifact) await builder.removeArtifact(artifact, builtBy);
}

/** Returns the build outputs that it removed. */
async function removeReleases(deps: TearDownDeps, serviceId: string): Promise<BuildOutput[]> {
  await deps.runtime.remove(serviceId);
  await removeRunsOf(deps, serviceId);
  const outputs = await listBuildOutputs(deps.pool, serviceId);
  for (const output of outputs) await removeBuilt(deps, serviceId, output);
  await deps.builder.removeCaches(serviceId);
  await deps.store.removePrefix(archivePrefix(serviceId));
  return outputs;
}

/** Throws when another process, which had stalled, began or ended a build after `removed` was read. */
async function refuseLateBuilds(tx: Tx, serviceId: string, removed: BuildOutput[]): Promise<void> {
  await lockDeployments(tx, serviceId);
  const isRemoved = (output: BuildOutput) => removed.some((other) => isDeepStrictEqual(output, other));
  if (!(await listBuildOutputs(tx, serviceId)).every(isRemoved))
    throw new Error("a build of the service began or ended while the service was removed");
}
