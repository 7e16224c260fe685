import { setImmediate as nextTurn } from "node:timers/promises";
import type { V1PodTemplateSpec } from "@kubernetes/client-node";
import { Pod } from "../../../services/deployer/kube/kinds.ts";
import { annotation } from "../../../services/deployer/kube/names.ts";
import { selectorOf } from "../../../services/deployer/runtime/kubernetes/app-pods.ts";
import { serviceIdOf } from "../../../services/deployer/runtime/kubernetes/release/release-annotations.ts";
import type { Store, Stored } from "../../support/kube-api/store.ts";

/** Replaces the pod of each Deployment whose template changes by a ready one, as a cluster's controllers and nodes do. */
export function runPods(store: Store): void {
  store.onChange(({ type, scope, object }) => {
    if (scope.plural === "deployments" && type !== "DELETED")
      void nextTurn().then(() => replacePod(store, object));
  });
}

function replacePod(store: Store, deployment: Stored): void {
  const { namespace, name } = deployment.metadata;
  const scope = { ...Pod, namespace };
  const { metadata = {}, spec } = (deployment.spec as { template: V1PodTemplateSpec }).template;
  const hash = annotation("template");
  const [before] = store.list(scope, selectorOf(serviceIdOf(deployment))).map(([, pod]) => pod);
  const annotations = before?.metadata.annotations as Record<string, string> | undefined;
  if (!before || !metadata.annotations?.[hash] || annotations?.[hash] === metadata.annotations[hash]) return;
  const now = new Date().toISOString();
  const { containerStatuses } = before.status as { containerStatuses: object[] };
  const running = { startedAt: now };
  store.remove(scope, before.metadata.name);
  store.put(scope, {
    ...before,
    metadata: { ...metadata, name: `${name}-${metadata.annotations[hash]}` },
    spec,
    status: {
      phase: "Running",
      conditions: [{ type: "Ready", status: "True", lastTransitionTime: now }],
      containerStatuses: containerStatuses.map((one) => ({ ...one, state: { running } })),
    },
  });
}
