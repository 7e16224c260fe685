import type { V1PodDisruptionBudget } from "@kubernetes/client-node";
import { selectorOf } from "../app-pods.ts";
import type { AppRelease } from "./manifests.ts";

export type DisruptionBudgetSpec = NonNullable<V1PodDisruptionBudget["spec"]>;

/**
 * Returns how many replicas of a release a drain may end at once; undefined where it has one at most. Pure. The cluster
 * rounds the share up, so at least one may always be ended, and no drain waits for ever.
 */
export function disruptionBudgetOf(
  release: Pick<AppRelease, "serviceId" | "replicas" | "autoscaling"> | undefined,
): DisruptionBudgetSpec | undefined {
  if (!release || (release.autoscaling?.max ?? release.replicas) < 2) return undefined;
  return {
    maxUnavailable: "25%",
    // Replicas that do not serve are no reason to keep a node.
    unhealthyPodEvictionPolicy: "AlwaysAllow",
    selector: { matchLabels: selectorOf(release.serviceId) },
  };
}
