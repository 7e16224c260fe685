import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { createLog } from "../../../kit/log.ts";
import { connectKube } from "../../kube/client.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, labelsOf, namespaceOf, selector } from "../../kube/names.ts";
import type { AddonType } from "../../terms/services.ts";
import { createKubernetesAddons } from "./adapter.ts";

type More = { images?: Record<AddonType, string>; storage?: { size: string; className?: string } };

/** Addons on the cluster of KUBECONFIG, in namespaces of this run alone: fenced in, as every environment is. */
export function addonsForTest() {
  const kube = connectKube();
  const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
  const namespacePrefix = `addons-${randomBytes(3).toString("hex")}`;
  const images = inject("clusterImages");
  const made = new Set<string>();
  const opened: { stop: () => Promise<void> }[] = [];
  const spaceOf = (environmentId: string) => namespaceOf(namespacePrefix, environmentId);

  const hasNamespace = (name: string) => made.has(name);
  async function ensureNamespace({ environmentId }: { environmentId: string }): Promise<void> {
    const name = spaceOf(environmentId);
    made.add(name);
    const labels = { ...labelsOf({ environmentId }), "pod-security.kubernetes.io/enforce": "restricted" };
    await kube.apply(kinds.Namespace, { metadata: { name, labels } });
    await kube.apply(kinds.NetworkPolicy, {
      metadata: { name: "deny", namespace: name },
      spec: {
        podSelector: {},
        policyTypes: ["Ingress", "Egress"],
        egress: [{ to: [{ podSelector: {} }] }, { ports: [{ port: 53, protocol: "UDP" }] }],
      },
    });
  }

  return {
    kube,
    images,
    spaceOf,
    ensureNamespace,
    /** The adapter as a deployer of its own has it. */
    open(more: More = {}) {
      const storage = { size: "64Mi" };
      const watch = "cluster" as const;
      const options = {
        ...{ kube, log, watch, namespacePrefix, ensureNamespace, hasNamespace, images, storage, user: 999 },
        patchImages: { postgres: [], redis: [] },
        ...more,
      };
      const adapter = createKubernetesAddons(options);
      opened.push(adapter);
      return adapter;
    },
    /** The kinds of everything of an addon that is in the cluster. */
    async leftOf({ serviceId, environmentId }: { serviceId: string; environmentId: string }) {
      const namespace = spaceOf(environmentId);
      const labels = selector({ [label("serviceId")]: serviceId });
      const { StatefulSet, Service, Secret, NetworkPolicy, Pod, PersistentVolumeClaim } = kinds;
      const all = [StatefulSet, Service, Secret, NetworkPolicy, Pod, PersistentVolumeClaim];
      const pages = await Promise.all(
        all.map((kind) => kube.list(kind as typeof Pod, { namespace, labels })),
      );
      return pages.flatMap(({ items }, at) => items.map(() => all[at]!.kind)).sort();
    },
    async stop(): Promise<void> {
      await Promise.all(opened.map((one) => one.stop()));
      for (const name of made) await kube.remove(kinds.Namespace, name);
    },
  };
}
