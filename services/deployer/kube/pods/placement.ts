import { arch } from "node:process";
import type { V1PodSpec } from "@kubernetes/client-node";
import { TIERS, type Tier } from "../../../kit/plans.ts";
import { type Field, isObject, json, text } from "../../../kit/process/config.ts";

/** Where pods may run, as members of their specification. */
export type Placement = Pick<
  V1PodSpec,
  "nodeSelector" | "tolerations" | "affinity" | "priorityClassName" | "runtimeClassName"
>;

const MEMBERS = ["nodeSelector", "tolerations", "affinity", "priorityClassName", "runtimeClassName"];
const ARCHITECTURE = "kubernetes.io/arch";
/** What Kubernetes calls some architectures, by Node's names; the others have the same name. */
const ARCHITECTURES: Record<string, string> = { x64: "amd64", ppc64: "ppc64le" };

/** Where builds and apps may run (docs/nodes.md#architecture). */
export const placementFields = {
  /** Unless given, that of this program: its image and the builder's are built together. */
  nodeArchitecture: text("NODE_ARCHITECTURE", ARCHITECTURES[arch] ?? arch),
  appsPlacement: placement("APPS_PLACEMENT"),
  builderPlacement: placement("BUILDER_PLACEMENT"),
  /** Where the apps of a plan may run besides, as JSON: `{"free": {"runtimeClassName": "gvisor"}}`. */
  planPlacement: json<Partial<Record<Tier, Placement>>>(
    "PLAN_PLACEMENT",
    {},
    isPlacementByTier,
    `an object of placements, by plan (${TIERS.join(", ")})`,
  ),
};

function placement(name: string): Field<Placement> {
  return json<Placement>(name, {}, isPlacement, `an object of ${MEMBERS.join(", ")}`);
}

function isPlacement(value: unknown): boolean {
  return isObject(value) && Object.keys(value).every((member) => MEMBERS.includes(member));
}

function isPlacementByTier(value: unknown): boolean {
  const isEntry = ([tier, one]: [string, unknown]) =>
    TIERS.some((known) => known === tier) && isPlacement(one);
  return isObject(value) && Object.entries(value).every(isEntry);
}

/** Returns a placement with that of a plan: labels of nodes and tolerations are added, everything else is replaced. */
export function withPlanPlacement(base: Placement, plan: Placement = {}): Placement {
  const tolerations = [...(base.tolerations ?? []), ...(plan.tolerations ?? [])];
  const nodeSelector = { ...base.nodeSelector, ...plan.nodeSelector };
  return {
    ...base,
    ...plan,
    ...(Object.keys(nodeSelector).length > 0 && { nodeSelector }),
    ...(tolerations.length > 0 && { tolerations }),
  };
}

/** Returns a placement that is restricted to nodes of an architecture. */
export function onArchitecture(given: Placement, architecture: string): Placement {
  return { ...given, nodeSelector: { ...given.nodeSelector, [ARCHITECTURE]: architecture } };
}
