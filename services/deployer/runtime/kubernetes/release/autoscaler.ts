import type { V1Deployment, V2HorizontalPodAutoscaler } from "@kubernetes/client-node";
import { sizes } from "../../../../kit/sizes.ts";
import { millicores } from "../../../kube/pods/resources.ts";
import type { AppRelease } from "./manifests.ts";

export type AutoscalerSpec = NonNullable<V2HorizontalPodAutoscaler["spec"]>;

/**
 * Returns the specification of the autoscaler of a release; pure. Its target is a share of the size and not of what is
 * reserved, which is only a part of it.
 */
export function autoscalerOf(
  { size }: Pick<AppRelease, "size">,
  { min, max, targetCpuPercent }: NonNullable<AppRelease["autoscaling"]>,
  name: string,
): AutoscalerSpec {
  const averageValue = millicores(Math.max(1, Math.round((sizes[size].cpu * targetCpuPercent) / 100)));
  return {
    scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name },
    minReplicas: min,
    maxReplicas: max,
    metrics: [
      { type: "Resource", resource: { name: "cpu", target: { type: "AverageValue", averageValue } } },
    ],
  };
}

/**
 * Returns a release with the number of replicas that its autoscaler has decided on, within its bounds; one with a fixed
 * number as it is. Pure.
 */
export function withLiveReplicas<T extends AppRelease>(release: T, { spec }: V1Deployment): T {
  const { autoscaling, ...rest } = release;
  if (!autoscaling) return rest as unknown as T;
  const { min, max } = autoscaling;
  return { ...release, replicas: Math.min(max, Math.max(min, spec?.replicas ?? 0)) };
}
