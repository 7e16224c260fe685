import { setTimeout as delay } from "node:timers/promises";
import type { KubernetesObject, V1Deployment } from "@kubernetes/client-node";
import { isStatus, type Kube } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { nameOf, namespaceOf } from "../../../kube/names.ts";
import type { Addon, AddonAddress, AddonPoolers } from "../../port.ts";
import { GENERATION } from "../server/annotations.ts";
import { programs } from "../server/server-scripts.ts";
import {
  ofPooler,
  type PoolerManifestOptions,
  poolerAddress,
  poolerName,
  poolerObjects,
  poolerOutcome,
} from "./manifests.ts";

export type PoolersOptions = PoolerManifestOptions & {
  kube: Kube;
  /** Has PgBouncer; without it no addon gets a pooler, and those that have one keep its image. */
  image?: string;
};

export type KubernetesPoolers = AddonPoolers & {
  /** Why addons cannot get one, as a sentence. */
  reason?: string;
};

const NO_IMAGE = "This installation names no image for poolers (apps.addons.poolerImage).";
/** The status of a Deployment changes often while its pod starts. */
const MAX_ATTEMPTS = 10;
const REMOVE_MS = 60_000;

/**
 * Poolers on a cluster, for both engines of PostgreSQL: each a Deployment of PgBouncer with one pod. They belong to the object
 * of the addon's server, so whoever removes that removes them too.
 */
export function createPoolers(options: PoolersOptions): KubernetesPoolers {
  const { kube, image, namespacePrefix } = options;
  const spaceOf = (environmentId: string) => namespaceOf(namespacePrefix, environmentId);

  async function ownerOf({ serviceId, environmentId, engine }: Addon) {
    const [name, namespace] = [nameOf(serviceId), spaceOf(environmentId)];
    const server: KubernetesObject | undefined =
      engine === "cnpg"
        ? await kube.get(kinds.PostgresCluster, name, namespace)
        : await kube.get(kinds.StatefulSet, name, namespace);
    const { apiVersion, kind } = engine === "cnpg" ? kinds.PostgresCluster : kinds.StatefulSet;
    const uid = server?.metadata?.deletionTimestamp ? undefined : server?.metadata?.uid;
    return uid === undefined ? undefined : { apiVersion, kind, name, uid };
  }

  async function removeSecrets(serviceId: string, namespace: string, except?: string): Promise<void> {
    for (const { name } of await kube.listMetadata(kinds.Secret, { namespace, labels: ofPooler(serviceId) }))
      if (name && name !== except) await kube.remove(kinds.Secret, name, namespace);
  }

  return {
    ...(image === undefined && { reason: NO_IMAGE }),
    address: (addon) => poolerAddress(addon, namespacePrefix),
    async ensure(addon, password) {
      const { serviceId, environmentId } = addon;
      const namespace = spaceOf(environmentId);
      for (let attempt = 1; ; attempt++) {
        const before = await kube.get(kinds.Deployment, poolerName(serviceId), namespace);
        if (Number(before?.metadata?.annotations?.[GENERATION] ?? 0) > addon.generation)
          throw new Error("the pooler of an addon has a newer password than this process knows");
        const owner = await ownerOf(addon);
        if (!owner) return { state: "waiting", message: "The addon has no server yet." };
        const held = image ?? before?.spec?.template.spec?.containers[0]?.image;
        if (held === undefined) return { state: "failed", message: NO_IMAGE };
        const parts = { image: held, server: serverOf(addon, namespace), owner };
        const { policy, secret, service, deployment } = poolerObjects(addon, parts, password, options);
        if (attempt === 1) {
          await kube.apply(kinds.NetworkPolicy, policy);
          await kube.apply(kinds.Secret, secret);
          await kube.apply(kinds.Service, service);
        }
        // Refused when it has changed since it was read, or is gone: another process may have a newer password.
        const { resourceVersion, uid } = before?.metadata ?? {};
        let applied: V1Deployment;
        try {
          const metadata = { ...deployment.metadata, resourceVersion, uid };
          applied = await kube.apply(kinds.Deployment, { ...deployment, metadata });
        } catch (error) {
          if (!isStatus(error, 409) || attempt === MAX_ATTEMPTS) throw error;
          continue;
        }
        const outcome = poolerOutcome(applied);
        if (outcome.state === "ready") await removeSecrets(serviceId, namespace, secret.metadata.name);
        return outcome;
      }
    },
    async remove({ serviceId, environmentId }) {
      const [name, namespace] = [poolerName(serviceId), spaceOf(environmentId)];
      if (!(await kube.get(kinds.Namespace, namespace))) return;
      await kube.remove(kinds.Deployment, name, namespace, { propagationPolicy: "Foreground" });
      await kube.remove(kinds.Service, name, namespace);
      await removeSecrets(serviceId, namespace);
      const theirs = { namespace, labels: ofPooler(serviceId) };
      for (const deadline = Date.now() + REMOVE_MS; ; await delay(250)) {
        const deployment = await kube.get(kinds.Deployment, name, namespace);
        const pods = await kube.listMetadata(kinds.Pod, theirs);
        if (!deployment && pods.length === 0) break;
        if (Date.now() > deadline) throw new Error("the pooler of an addon has not ended yet");
      }
      await kube.remove(kinds.NetworkPolicy, name, namespace);
    },
  };
}

/** Returns where the server of an addon is reached, which takes writes. */
const serverOf = ({ name }: Addon, namespace: string): AddonAddress => ({
  host: `${name}.${namespace}.svc`,
  port: programs.postgres.port,
});
