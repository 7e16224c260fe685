import { isDeepStrictEqual } from "node:util";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Addons } from "../addons/lifecycle.ts";
import { recordAddon } from "../addons/sql.ts";
import type { Builder } from "../builder/port.ts";
import type { Builds } from "../builds/running-builds.ts";
import {
  type BuildOutput,
  listBuildOutputs,
  lockDeployments,
  pruneProject,
  removeService,
} from "../catalog/deletion-sql.ts";
import { failDeployment, newNotice } from "../deployments/fail-deployment.ts";
import { markDiscarded } from "../deployments/transitions-sql.ts";
import { releaseArtifact } from "../images/account-images.ts";
import type { Releases } from "../releases/apply-release.ts";
import type { Runtime } from "../runtime/port.ts";
import { archivePrefix } from "../secrets.ts";
import type { ObjectStore } from "../store/port.ts";
import { recordUsage } from "../usage/intervals.ts";
import type { Action, AddonToRemove } from "./plan.ts";

export type PerformDeps = {
  pool: Pool;
  runtime: Runtime;
  builder: Builder;
  store: ObjectStore;
  addons: Addons;
  log: Logger;
  builds: Builds;
  releases: Releases;
  owner: number;
};

/**
 * Performs one action of a plan. Each can be repeated after a crash at any point. Gives whether the service
 * has to be planned again at once.
 */
export function createPerform(deps: PerformDeps) {
  const { pool, runtime, builder, builds, releases, log } = deps;

  /** Removes what an ended build or an expired release left, unless another deployment runs it. */
  async function discard(serviceId: string, left: Extract<Action, { do: "discard" }>): Promise<void> {
    await removeBuilt(serviceId, left, left.deploymentId);
    await markDiscarded(pool, left.deploymentId);
  }

  async function removeBuilt(
    serviceId: string,
    { buildId, artifact }: { buildId?: string | null; artifact?: string | null },
    deploymentId?: string,
  ): Promise<void> {
    const builtBy = artifact ? await releaseArtifact(pool, serviceId, artifact, deploymentId) : serviceId;
    if (builtBy === undefined) return;
    if (buildId) await builder.discard(buildId);
    if (artifact) await builder.removeArtifact(artifact, builtBy);
  }

  /** Gives what it removed of builds. */
  async function removeReleases(serviceId: string): Promise<BuildOutput[]> {
    await runtime.remove(serviceId);
    const known = await listBuildOutputs(pool, serviceId);
    for (const build of known) await removeBuilt(serviceId, build);
    await builder.removeCaches(serviceId);
    await deps.store.removePrefix(archivePrefix(serviceId));
    return known;
  }

  /** A process that stood still may have been about to begin a build, or to end one. */
  async function refuseLateBuilds(tx: Tx, serviceId: string, known: BuildOutput[]): Promise<void> {
    await lockDeployments(tx, serviceId);
    const isKnown = (one: BuildOutput) => known.some((other) => isDeepStrictEqual(one, other));
    if (!(await listBuildOutputs(tx, serviceId)).every(isKnown))
      throw new Error("a build of the service began or ended while it was removed");
  }

  /** Removes everything that belongs to a service, and its rows last. */
  async function tearDown(serviceId: string, addon: AddonToRemove | undefined): Promise<void> {
    // An addon has no releases and no builds: it waits for no registry to go.
    if (addon) await deps.addons.drop({ serviceId, ...addon });
    const known = addon ? [] : await removeReleases(serviceId);
    await transaction(pool, async (tx) => {
      await refuseLateBuilds(tx, serviceId, known);
      const removed = await removeService(tx, serviceId);
      if (removed) await pruneProject(tx, removed.projectId);
    });
    log.info({ serviceId }, "service is removed");
  }

  return async (serviceId: string, action: Action): Promise<boolean> => {
    switch (action.do) {
      case "tear-down":
        await tearDown(serviceId, action.addon);
        return false;
      case "provision-addon":
        return deps.addons.provision(serviceId);
      case "rotate-addon":
        return deps.addons.rotate(serviceId);
      case "record-addon":
        await transaction(pool, async (tx) => {
          const { status } = action;
          if (await recordAddon(tx, deps.owner, serviceId, status))
            await recordUsage(tx, serviceId, status.usage);
        });
        return true;
      case "stop-build":
        await builds.stop(serviceId);
        return true;
      case "discard":
        await discard(serviceId, action);
        return true;
      case "build":
        return builds.begin(serviceId, action.deploymentId);
      case "apply":
        return releases.apply(serviceId, action.deploymentId);
      case "fail":
        return failDeployment(
          pool,
          log,
          action.deploymentId,
          newNotice(action.stage, action.code, action.message),
        );
      case "reapply-live":
        return releases.reapplyLive(serviceId);
      case "remove-stray":
        await runtime.remove(serviceId);
        return true;
      case "compare-variables":
        return releases.compareVariables(serviceId);
      case "scale":
        return releases.scale(serviceId);
      case "roll":
        return releases.roll(serviceId);
      case "record-status":
        await releases.recordStatus(action.status);
        return true;
    }
  };
}
