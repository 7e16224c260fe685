import { isStatus } from "../../../kube/client.ts";
import { ConfigMap } from "../../../kube/kinds.ts";
import { label, labelsOf, selector } from "../../../kube/names.ts";
import { chooseLabel } from "../../host-label.ts";
import type { Release } from "../../port.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";

/**
 * Records which service has which host name: an object for each name, which only one process can create. Two deployers
 * may choose names at once.
 */
export function createHostClaims({ kube, claimsNamespace: namespace }: KubernetesRuntimeOptions) {
  /** Claims a label; returns whether the service has it now. */
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
    /** Returns the host label of a service: the first that is free, which it has from then on. */
    async choose(release: Release): Promise<string> {
      const taken = new Set<string>();
      for (;;) {
        const host = chooseLabel(release.names, release.serviceId, (one) => taken.has(one));
        if (await claim(host, release)) return host;
        taken.add(host);
      }
    },

    /** Gives up all labels of a service but that of the host name `kept`. */
    async release(serviceId: string, kept = ""): Promise<void> {
      const labels = selector({ [label("service")]: serviceId, [label("kind")]: "host" });
      const { items } = await kube.list(ConfigMap, { namespace, labels });
      const others = items.filter(({ metadata }) => metadata?.name !== `host-${kept.split(".")[0]}`);
      for (const { metadata } of others) await kube.remove(ConfigMap, metadata?.name ?? "", namespace);
    },
  };
}
