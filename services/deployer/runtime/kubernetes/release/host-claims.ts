import { isStatus } from "../../../kube/client.ts";
import { ConfigMap } from "../../../kube/kinds.ts";
import { label, labelsOf, selector } from "../../../kube/names.ts";
import { chooseLabel } from "../../host-label.ts";
import type { Release } from "../../port.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";

/**
 * Which service has which host name: an object for each, which only one can make. Environments' namespaces do
 * not see each other, and two deployers may give out names at once.
 */
export function createHostClaims({ kube, claimsNamespace: namespace }: KubernetesRuntimeOptions) {
  /** Whether the label is the service's now. */
  async function claim(host: string, { serviceId, environmentId }: Release): Promise<boolean> {
    const name = `host-${host}`;
    const labels = labelsOf({ environmentId, serviceId, kind: "host" });
    try {
      await kube.create(ConfigMap, { metadata: { name, namespace, labels } });
      return true;
    } catch (error) {
      if (!isStatus(error, 409)) throw error;
    }
    const held = await kube.get(ConfigMap, name, namespace);
    return held?.metadata?.labels?.[label("service")] === serviceId;
  }

  return {
    /** The host label of a service: the first that is free, and its own from then on. */
    async choose(release: Release): Promise<string> {
      const taken = new Set<string>();
      for (;;) {
        const host = chooseLabel(release.names, release.serviceId, (one) => taken.has(one));
        if (await claim(host, release)) return host;
        taken.add(host);
      }
    },

    async release(serviceId: string): Promise<void> {
      const labels = selector({ [label("service")]: serviceId, [label("kind")]: "host" });
      const { items } = await kube.list(ConfigMap, { namespace, labels });
      for (const { metadata } of items) await kube.remove(ConfigMap, metadata?.name ?? "", namespace);
    },
  };
}
