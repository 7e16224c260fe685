import { recordAddonStatus } from "../addons/record-status.ts";
import { type AdmissionDeps, admitBuilds } from "../builds/admit-builds.ts";
import type { Builds } from "../builds/running-builds.ts";
import { failDeployment } from "../deployments/fail-deployment.ts";
import { rollRelease, scaleRelease } from "../releases/adjust-release.ts";
import {
  type ApplyDeps,
  applyDeployment,
  compareVariables,
  reapplyLive,
} from "../releases/apply/apply-release.ts";
import { recordReleaseStatus } from "../releases/record-status.ts";
import { keepUnknown } from "../releases/sql.ts";
import { removeReleaseCommand, runReleaseCommand } from "../runs/release-command.ts";
import { newNotice } from "../terms/notice.ts";
import type { Action } from "./plan.ts";
import { discard, type TearDownDeps, tearDown } from "./tear-down.ts";

export type PerformDeps = ApplyDeps & TearDownDeps & AdmissionDeps & { builds: Builds };

/**
 * Performs one action of a plan. Each can be repeated after a crash at any point. Returns whether the service
 * has to be planned again at once.
 */
export async function perform(deps: PerformDeps, serviceId: string, action: Action): Promise<boolean> {
  const { pool, log, addons, builds } = deps;
  switch (action.do) {
    case "tear-down":
      await tearDown(deps, serviceId, action.addon);
      return false;
    case "provision-addon":
      return addons.provision(serviceId);
    case "rotate-addon":
      return addons.rotate(serviceId);
    case "ensure-pooler":
      return addons.ensurePooler(serviceId);
    case "withdraw-pooler":
      return addons.withdrawPooler(serviceId);
    case "remove-pooler":
      return addons.removePooler(serviceId);
    case "record-addon":
      await recordAddonStatus(deps, action.status);
      return true;
    case "stop-build":
      await builds.stop(serviceId);
      return true;
    case "discard":
      await discard(deps, serviceId, action);
      return true;
    case "admit-builds":
      return (await admitBuilds(deps)).includes(serviceId);
    case "build":
      return builds.begin(serviceId, action.deploymentId);
    case "release-command":
      return runReleaseCommand(deps, serviceId, action.deploymentId);
    case "remove-command":
      await removeReleaseCommand(deps, serviceId, action.deploymentId);
      return true;
    case "apply":
      return applyDeployment(deps, serviceId, action.deploymentId);
    case "fail":
      return failDeployment(
        pool,
        log,
        action.deploymentId,
        newNotice(action.stage, action.code, action.message),
      );
    case "reapply-live":
      return reapplyLive(deps, serviceId);
    case "keep-unknown":
      log.warn({ serviceId, ...action }, "what runs is newer than the database, and runs on");
      await keepUnknown(pool, serviceId, action);
      return true;
    case "remove-stray":
      await deps.runtime.remove(serviceId);
      return true;
    case "compare-variables":
      return compareVariables(deps, serviceId);
    case "scale":
      return scaleRelease(deps, serviceId);
    case "roll":
      return rollRelease(deps, serviceId);
    case "record-status":
      await recordReleaseStatus(deps, action.status);
      return true;
  }
}
