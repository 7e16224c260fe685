import { arch } from "node:process";
import type { V1PodSpec } from "@kubernetes/client-node";
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
};

function placement(name: string): Field<Placement> {
  const fits = (value: unknown) =>
    isObject(value) && Object.keys(value).every((member) => MEMBERS.includes(member));
  return json<Placement>(name, {}, fits, `an object of ${MEMBERS.join(", ")}`);
}

/** Returns a placement that is restricted to nodes of an architecture. */
export function onArchitecture(given: Placement, architecture: string): Placement {
  return { ...given, nodeSelector: { ...given.nodeSelector, [ARCHITECTURE]: architecture } };
}
