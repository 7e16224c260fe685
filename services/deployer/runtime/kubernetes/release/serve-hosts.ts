import type { V1Deployment } from "@kubernetes/client-node";
import { HTTPRoute, Ingress, Secret } from "../../../kube/kinds.ts";
import { selector } from "../../../kube/names.ts";
import type { ServedHost } from "../../port.ts";
import { selectorOf } from "../app-pods.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import type { Door } from "./doors.ts";
import { certificateName, hostDoorsOf, hostObjectName, isHostObject } from "./hosts.ts";
import { hasAddress, ownerOf, ownLabels, targetOf } from "./manifests.ts";
import type { ReleaseState } from "./release-annotations.ts";

/** Applies and removes the objects of the hosts at which services answer besides their own addresses. */
export function createHostServer(options: KubernetesRuntimeOptions) {
  const { kube, httpRoute, ingress } = options;
  const doorKinds = httpRoute ? [Ingress, HTTPRoute] : [Ingress];

  /** Applies the objects of the recorded hosts. */
  async function applyHosts(deployment: V1Deployment, { release, hosts = [] }: ReleaseState): Promise<void> {
    const { namespace } = deployment.metadata ?? {};
    const metadata = { namespace, labels: ownLabels(release), ownerReferences: [ownerOf(deployment)] };
    if (!hasAddress(release)) return;
    for (const [name, doors] of hostDoorsOf(targetOf(release), hosts, options)) {
      const toObject = <Spec>({ annotations, spec }: Door<Spec>) => ({
        metadata: { ...metadata, name, annotations },
        spec,
      });
      if (doors.ingress) await kube.apply(Ingress, toObject(doors.ingress));
      if (doors.httpRoute) await kube.apply(HTTPRoute, toObject(doors.httpRoute));
    }
  }

  /** Removes the objects of a service's hosts, but of those in `keep`, with their certificates. */
  async function removeOthers(namespace: string, serviceId: string, keep: ServedHost[] = []): Promise<void> {
    const kept = new Set(keep.map(({ host }) => hostObjectName(host)));
    const query = { namespace, labels: selector(selectorOf(serviceId)) };
    const gone = new Set<string>();
    for (const kind of doorKinds)
      for (const { name = "" } of await kube.listMetadata(kind, query)) {
        const unused = kind === Ingress ? !ingress.enabled : !httpRoute?.enabled;
        if (!isHostObject(name) || (kept.has(name) && !unused)) continue;
        await kube.remove(kind, name, namespace);
        if (!kept.has(name)) gone.add(name);
      }
    // cert-manager leaves them: it does not know that nobody needs them.
    for (const name of gone) await kube.remove(Secret, certificateName(name), namespace);
  }

  return { applyHosts, removeOthers };
}
