import { setTimeout as delay } from "node:timers/promises";
import type { V1StatefulSet } from "@kubernetes/client-node";
import type { Logger } from "../../../kit/log.ts";
import { isStatus, type Kube } from "../../kube/client.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, nameOf, namespaceOf, selector } from "../../kube/names.ts";
import type { Addon, AddonServers, AddonType } from "../port.ts";
import {
  addonObjects,
  type FixedSettings,
  GENERATION,
  type ManifestOptions,
  secretName,
} from "./manifests.ts";
import { createNamespaceWatches } from "./namespace-watch.ts";
import { addonOutcome } from "./pod-status.ts";
import { passwordMark, programs } from "./server-scripts.ts";

type KubernetesAddonsOptions = ManifestOptions & {
  kube: Kube;
  log: Logger;
  /** Creates an environment's namespace with all that its services need. */
  ensureNamespace: (environment: Environment) => Promise<unknown>;
  /** Whether an environment's namespace exists. */
  hasNamespace: (namespace: string) => boolean;
  /** Of new addons. */
  images: Record<AddonType, string>;
  storage: { size: string; className?: string };
};

type Environment = { accountId: string; projectId: string; environmentId: string };

/** The grace period of a server is a minute. */
const REMOVE_MS = 90_000;
/** The status of a StatefulSet changes often while its pod starts. */
const MAX_ATTEMPTS = 10;

/**
 * Addons on a cluster: each a StatefulSet with one pod and one volume, a Service of the addon's name, a Secret, and a
 * policy that admits only its environment. No connection to the servers is needed: a new password comes with a new pod.
 * Objects are applied, so two processes may do it at once.
 */
export function createKubernetesAddons(
  options: KubernetesAddonsOptions,
): AddonServers & { stop: () => Promise<void> } {
  const { kube, log, namespacePrefix } = options;
  let changed = (_serviceId: string) => {};
  const watches = createNamespaceWatches(kube, log, options.hasNamespace, (serviceId) => changed(serviceId));
  const spaceOf = (environmentId: string) => namespaceOf(namespacePrefix, environmentId);

  /** Applies the objects of an addon; the StatefulSet last, so that its pod finds all it needs. */
  async function applyObjects(addon: Addon, password: string): Promise<void> {
    const [name, namespace] = [nameOf(addon.serviceId), spaceOf(addon.environmentId)];
    for (let attempt = 1; ; attempt++) {
      const before = await kube.get(kinds.StatefulSet, name, namespace);
      if (Number(before?.metadata?.annotations?.[GENERATION] ?? 0) > addon.generation)
        throw new Error("an addon has a newer password than this process knows");
      const fixed = fixedSettings(before) ?? newSettings(addon.type, options);
      const { policy, secret, service, set } = addonObjects(addon, fixed, password, options);
      if (attempt === 1) {
        await kube.apply(kinds.NetworkPolicy, policy);
        await kube.apply(kinds.Secret, secret);
        await kube.apply(kinds.Service, service);
      }
      // Refused when the set has changed since it was read: another process may have a newer password.
      const { resourceVersion } = before?.metadata ?? {};
      const conflict = await kube
        .apply(kinds.StatefulSet, { ...set, metadata: { ...set.metadata, resourceVersion } })
        .then(
          () => undefined,
          (error) => error,
        );
      if (!conflict) return;
      if (!isStatus(conflict, 409) || attempt === MAX_ATTEMPTS) throw conflict;
    }
  }

  /** Removes the Secrets of an addon's passwords, except the one of this name. */
  async function removeSecrets(serviceId: string, namespace: string, except?: string): Promise<void> {
    const labels = selector({ [label("serviceId")]: serviceId, [label("kind")]: "addon" });
    for (const { name } of await kube.listMetadata(kinds.Secret, { namespace, labels }))
      if (name && name !== except) await kube.remove(kinds.Secret, name, namespace);
  }

  return {
    ownServer: ["postgres", "redis"],
    async ensure(addon, password) {
      const { serviceId, environmentId } = addon;
      const namespace = spaceOf(environmentId);
      await options.ensureNamespace(addon);
      await applyObjects(addon, password);
      watches.markComplete(namespace, serviceId);
      const pod = await kube.get(kinds.Pod, `${nameOf(serviceId)}-0`, namespace);
      const outcome = addonOutcome(pod, { mark: passwordMark(password), size: addon.size }, Date.now());
      if (outcome.state === "ready")
        await removeSecrets(serviceId, namespace, secretName(serviceId, password));
      return outcome;
    },
    address: ({ type, environmentId, name }) => ({
      host: `${name}.${spaceOf(environmentId)}.svc`,
      port: programs[type].port,
    }),
    async remove({ serviceId, environmentId }) {
      const name = nameOf(serviceId);
      const namespace = environmentId ? spaceOf(environmentId) : watches.namespaceOf(name);
      if (!namespace || !(await kube.get(kinds.Namespace, namespace))) return;
      // Deletes the volume too.
      await kube.remove(kinds.StatefulSet, name, namespace, { propagationPolicy: "Foreground" });
      const labels = selector({ [label("serviceId")]: serviceId });
      for (const { name = "" } of await kube.listMetadata(kinds.Service, { namespace, labels }))
        await kube.remove(kinds.Service, name, namespace);
      for (const deadline = Date.now() + REMOVE_MS; ; await delay(250)) {
        const set = await kube.get(kinds.StatefulSet, name, namespace);
        const pod = await kube.get(kinds.Pod, `${name}-0`, namespace);
        if (!set && !pod) break;
        if (Date.now() > deadline) throw new Error("the server of an addon has not ended yet");
      }
      await removeSecrets(serviceId, namespace);
      await kube.remove(kinds.NetworkPolicy, name, namespace);
    },
    async status({ serviceId, environmentId }) {
      const namespace = environmentId ? spaceOf(environmentId) : watches.namespaceOf(nameOf(serviceId));
      if (!namespace) return undefined;
      return (await watches.listIn(namespace)).find((one) => one.serviceId === serviceId);
    },
    list: watches.list,
    watch(listener) {
      changed = listener;
    },
    stop: watches.stop,
  };
}

/** Returns the settings with which an existing server was created. */
function fixedSettings(set: V1StatefulSet | undefined): FixedSettings | undefined {
  const image = set?.spec?.template?.spec?.containers[0]?.image;
  const claim = set?.spec?.volumeClaimTemplates?.[0]?.spec;
  const storage = claim?.resources?.requests?.storage;
  return image && storage ? { image, storage, storageClass: claim.storageClassName } : undefined;
}

function newSettings(type: AddonType, { images, storage }: KubernetesAddonsOptions): FixedSettings {
  return { image: images[type], storage: storage.size, storageClass: storage.className };
}
