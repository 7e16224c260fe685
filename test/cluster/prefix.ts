import type { V1Deployment } from "@kubernetes/client-node";
import type { Kube } from "../../services/deployer/kube/client.ts";
import * as kinds from "../../services/deployer/kube/kinds.ts";

/** Returns what the names of the chart's objects begin with, in the namespace of an installation. */
export async function findPrefix(kube: Kube, namespace: string): Promise<string> {
  const labels = "app.kubernetes.io/component=gateway";
  const { items } = await kube.list<V1Deployment>(kinds.Deployment, { namespace, labels });
  return items[0]!.metadata!.name!.replace(/-gateway$/, "");
}
