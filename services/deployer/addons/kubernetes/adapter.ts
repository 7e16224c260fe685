import { setTimeout as delay } from "node:timers/promises";
import type { V1StatefulSet } from "@kubernetes/client-node";
import type { Logger } from "../../../kit/log.ts";
import { isStatus, type Kube } from "../../kube/client.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, nameOf, namespaceOf, selector } from "../../kube/names.ts";
import type { Addon, AddonServers, AddonType } from "../port.ts";
import { addonObjects, GENERATION, type Kept, type ManifestOptions, secretName } from "./manifests.ts";
import { createNamespaceWatches } from "./namespace-watch.ts";
import { outcomeOf } from "./pod-status.ts";
import { passwordMark, programs } from "./server-scripts.ts";

type KubernetesAddonsOptions = ManifestOptions & {
  kube: Kube;
  log: Logger;
  /** Makes an environment's namespace with all that every service in it needs. */
  ensureNamespace: (environment: Environment) => Promise<unknown>;
  /** What new addons are made with. */
  images: Record<AddonType, string>;
  storage: { size: string; className?: string };
};

type Environment = { accountId: string; projectId: string; environmentId: string };

/** A server has a minute to end cleanly. */
const REMOVE_MS = 90_000;
/** The status of a set changes often while its pod starts. */
const TRIES = 10;

/**
 * Addons on a cluster: each a StatefulSet with one pod and one volume, a Service of the addon's name, a Secret,
 * and a policy that lets only its environment in. The servers are never spoken to: a new password comes with a
 * new pod, so the deployer needs no way to them. Objects are applied, so two processes may do it at once.
 */
export function createKubernetesAddons(
  options: KubernetesAddonsOptions,
): AddonServers & { stop: () => Promise<void> } {
  const { kube, log, namespacePrefix } = options;
  let told = (_serviceId: string) => {};
  const views = createNamespaceWatches(kube, log, (serviceId) => told(serviceId));
  const spaceOf = (environmentId: string) => namespaceOf(namespacePrefix, environmentId);

  /** Each object is applied as it should be; the set last, so that a pod finds all it needs. */
  async function applyAll(addon: Addon, password: string): Promise<void> {
    const [name, namespace] = [nameOf(addon.serviceId), spaceOf(addon.environmentId)];
    for (let tries = 1; ; tries++) {
      const before = await kube.get(kinds.StatefulSet, name, namespace);
      if (Number(before?.metadata?.annotations?.[GENERATION] ?? 0) > addon.generation)
        throw new Error("an addon has a newer password than this process knows");
      const kept = keptFrom(before) ?? keptFor(addon.type, options);
      const { policy, secret, service, set } = addonObjects(addon, kept, password, options);
      if (tries === 1) {
        await kube.apply(kinds.NetworkPolicy, policy);
        await kube.apply(kinds.Secret, secret);
        await kube.apply(kinds.Service, service);
      }
      // What was read must still hold: another process may know of a newer password.
      const { resourceVersion } = before?.metadata ?? {};
      const conflict = await kube
        .apply(kinds.StatefulSet, { ...set, metadata: { ...set.metadata, resourceVersion } })
        .then(
          () => undefined,
          (error) => error,
        );
      if (!conflict) return;
      if (!isStatus(conflict, 409) || tries === TRIES) throw conflict;
    }
  }

  /** Removes the Secrets of passwords that count no more. */
  async function forgetSecrets(serviceId: string, namespace: string, but?: string): Promise<void> {
    const labels = selector({ [label("serviceId")]: serviceId, [label("kind")]: "addon" });
    const { items } = await kube.list(kinds.Secret, { namespace, labels });
    for (const { metadata } of items)
      if (metadata?.name && metadata.name !== but) await kube.remove(kinds.Secret, metadata.name, namespace);
  }

  return {
    ownServer: ["postgres", "redis"],
    async ensure(addon, password) {
      const { serviceId, environmentId } = addon;
      const namespace = spaceOf(environmentId);
      await options.ensureNamespace(addon);
      await applyAll(addon, password);
      views.whole(namespace, serviceId);
      const pod = await kube.get(kinds.Pod, `${nameOf(serviceId)}-0`, namespace);
      const outcome = outcomeOf(pod, { mark: passwordMark(password), size: addon.size }, Date.now());
      if (outcome.state === "ready")
        await forgetSecrets(serviceId, namespace, secretName(serviceId, password));
      return outcome;
    },
    address: ({ type, environmentId, name }) => ({
      host: `${name}.${spaceOf(environmentId)}.svc`,
      port: programs[type].port,
    }),
    async remove({ serviceId, environmentId }) {
      const name = nameOf(serviceId);
      const namespace = environmentId ? spaceOf(environmentId) : views.where(name);
      if (!namespace || !(await kube.get(kinds.Namespace, namespace))) return;
      // The volume goes with the set.
      await kube.remove(kinds.StatefulSet, name, namespace, { propagationPolicy: "Foreground" });
      const labels = selector({ [label("serviceId")]: serviceId });
      const { items } = await kube.list(kinds.Service, { namespace, labels });
      for (const { metadata } of items) await kube.remove(kinds.Service, metadata?.name ?? "", namespace);
      for (const deadline = Date.now() + REMOVE_MS; ; await delay(250)) {
        const set = await kube.get(kinds.StatefulSet, name, namespace);
        const pod = await kube.get(kinds.Pod, `${name}-0`, namespace);
        if (!set && !pod) break;
        if (Date.now() > deadline) throw new Error("the server of an addon has not ended yet");
      }
      await forgetSecrets(serviceId, namespace);
      await kube.remove(kinds.NetworkPolicy, name, namespace);
    },
    async status({ serviceId, environmentId }) {
      const namespace = environmentId ? spaceOf(environmentId) : views.where(nameOf(serviceId));
      if (!namespace) return undefined;
      return (await views.of(namespace)).find((one) => one.serviceId === serviceId);
    },
    list: views.all,
    watch(listener) {
      told = listener;
    },
    stop: views.stop,
  };
}

/** What a server that is there was made with. */
function keptFrom(set: V1StatefulSet | undefined): Kept | undefined {
  const image = set?.spec?.template?.spec?.containers[0]?.image;
  const claim = set?.spec?.volumeClaimTemplates?.[0]?.spec;
  const storage = claim?.resources?.requests?.storage;
  return image && storage ? { image, storage, storageClass: claim.storageClassName } : undefined;
}

/** What a new one is made with. */
function keptFor(type: AddonType, { images, storage }: KubernetesAddonsOptions): Kept {
  return { image: images[type], storage: storage.size, storageClass: storage.className };
}
