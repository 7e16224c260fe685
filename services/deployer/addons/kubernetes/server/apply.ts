import type { V1StatefulSet } from "@kubernetes/client-node";
import { isStatus, type Kube, type Sent } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { nameOf, namespaceOf } from "../../../kube/names.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { Addon, PlacedAddon } from "../../port.ts";
import { imageOf } from "../patches.ts";
import { pairOf } from "../standby/pair.ts";
import { ensureReplicationSecret } from "../standby/secret.ts";
import { separateService } from "../standby/service.ts";
import { type AddonImages, imageFor, imagesOf } from "../versions.ts";
import { GENERATION, MOVED, PASSWORD, RESTORED, SIZE } from "./annotations.ts";
import {
  addonObjects,
  type FixedSettings,
  type Ordinal,
  type Pair,
  podName,
  replicationName,
  type ServerOptions,
} from "./manifests.ts";
import { passwordMark } from "./server-scripts.ts";
import { growVolumes, quantityOf, volumesOf } from "./volumes.ts";

export type ApplyOptions = ServerOptions &
  AddonImages & {
    kube: Kube;
    log: Logger;
    storage: { size: string; className?: string };
    /** Returns the image of a newer patch release, to which the server of an addon with this one is to move now. */
    patchOf: (addon: Addon, image: string | undefined) => string | undefined;
  };

/** What is to be other than it was. */
type Change = {
  /** The server is to start anew, by a pod with this mark; where the primary is still this one. */
  restored?: { mark: string; ordinal: Ordinal };
  /** Which of both servers is the primary; null removes the standby. */
  pair?: Pair | null;
};

/** The status of a StatefulSet changes often while its pod starts. */
const MAX_ATTEMPTS = 10;

/** Applies the objects of addons: to the cluster as it is, so two processes may do it at once. */
export function createApply(options: ApplyOptions) {
  const { kube, namespacePrefix } = options;
  const spaceOf = (environmentId: string) => namespaceOf(namespacePrefix, environmentId);
  const replicationMarkOf = async (addon: Addon) =>
    passwordMark(await ensureReplicationSecret(kube, addon, options));

  /** Returns the objects of an addon, of which the StatefulSet was as `before`. */
  async function objectsFor(
    addon: Addon,
    password: string,
    before: V1StatefulSet | undefined,
    { restored, pair: changed }: Change,
  ) {
    if (Number(before?.metadata?.annotations?.[GENERATION] ?? 0) > addon.generation)
      throw new Error("an addon has a newer password than this process knows");
    const held = pairOf(before);
    if (restored && (held?.primary ?? 0) !== restored.ordinal)
      throw new Error("another server of an addon has taken over meanwhile");
    const two = held ?? (hasStandby(addon) ? { primary: 0 as const } : undefined);
    const pair = changed === undefined ? two : (changed ?? undefined);
    const patch = options.patchOf(addon, imageOf(before));
    const template = {
      [PASSWORD]: passwordMark(password),
      [SIZE]: addon.size,
      ...(restored && { [RESTORED]: restored.mark }),
    };
    const fixed = {
      ...(fixedSettings(before, template, patch) ?? newSettings(addon, options)),
      ...(pair && { pair: { ...pair, replicationMark: await replicationMarkOf(addon) } }),
      shrinks: !pair && (held !== undefined || (shrinks(before) && !(await removeRest(addon)))),
    };
    return addonObjects(addon, fixed, password, options);
  }

  /** Fails with 409 when the set has changed since it was read, or is gone: another process may have a newer password. */
  const applySet = (set: Sent<V1StatefulSet>, before: V1StatefulSet | undefined) => {
    const { resourceVersion, uid } = before?.metadata ?? {};
    return kube.apply(kinds.StatefulSet, { ...set, metadata: { ...set.metadata, resourceVersion, uid } });
  };

  /** Applies the objects of an addon; the StatefulSet last, so that its pod finds all it needs. */
  async function applyObjects(addon: Addon, password: string, change: Change = {}): Promise<V1StatefulSet> {
    const [name, namespace] = [nameOf(addon.serviceId), spaceOf(addon.environmentId)];
    for (let attempt = 1; ; attempt++) {
      const before = await kube.get(kinds.StatefulSet, name, namespace);
      if (attempt > 1 && !before) throw new Error("an addon was removed while it was applied");
      const { policy, secret, service, set } = await objectsFor(addon, password, before, change);
      if (attempt === 1) {
        await kube.apply(kinds.NetworkPolicy, policy);
        await kube.apply(kinds.Secret, secret);
        const pair = pairOf(set);
        if (pair) await separateService(kube, addon, options, pair.primary);
        else if (!shrinks(set)) await kube.apply(kinds.Service, service);
      }
      const conflict = await applySet(set, before).then(
        () => undefined,
        (error) => error,
      );
      if (!conflict) {
        await growAsAsked(addon);
        return set as V1StatefulSet;
      }
      if (!isStatus(conflict, 409) || attempt === MAX_ATTEMPTS) throw conflict;
    }
  }

  /** Removes what is left of a standby, once its pod and its volume are gone; returns whether they are. */
  async function removeRest({ serviceId, environmentId }: PlacedAddon): Promise<boolean> {
    const [namespace, pod] = [spaceOf(environmentId), podName(serviceId, 1)];
    if (await kube.get(kinds.Pod, pod, namespace)) return false;
    const volumes = volumesOf(namespacePrefix, { serviceId, environmentId });
    const held = await kube.listMetadata(kinds.PersistentVolumeClaim, volumes);
    if (held.some(({ name }) => name === `data-${pod}`)) return false;
    await kube.remove(kinds.Secret, replicationName(serviceId), namespace);
    return true;
  }

  async function growAsAsked(addon: Addon): Promise<void> {
    const { storageGib } = addon;
    if (storageGib !== undefined)
      await growVolumes(options, volumesOf(namespacePrefix, addon), () => quantityOf(storageGib));
  }

  return {
    applyObjects,
    /** Applies the StatefulSet as it was read, with this pair in place of its own; with none, for a single server. */
    async applyPair(
      addon: Addon,
      password: string,
      before: V1StatefulSet,
      pair: Pair | undefined,
    ): Promise<void> {
      const { set } = await objectsFor(addon, password, before, { pair: pair ?? null });
      await applySet(set, before);
    },
  };
}

/**
 * Returns the settings with which an existing server was created, or with the image that it moves to. `template` is what
 * its pods are to be annotated with: one of a former version is not restarted for a limit that it has not yet.
 */
function fixedSettings(
  set: V1StatefulSet | undefined,
  template: Record<string, string>,
  patch?: string,
): FixedSettings | undefined {
  const image = patch ?? imageOf(set);
  const moved = patch ?? set?.metadata?.annotations?.[MOVED];
  const claim = set?.spec?.volumeClaimTemplates?.[0]?.spec;
  const storage = claim?.resources?.requests?.storage;
  const { metadata, spec } = set?.spec?.template ?? {};
  const restarts =
    patch !== undefined ||
    Object.entries(template).some(([name, value]) => metadata?.annotations?.[name] !== value);
  const restored = template[RESTORED] ?? metadata?.annotations?.[RESTORED];
  const anyDisk = !restarts && spec?.containers[0]?.resources?.limits?.["ephemeral-storage"] === undefined;
  return image && storage
    ? { image, moved, storage, storageClass: claim.storageClassName, restored, ...(anyDisk && { anyDisk }) }
    : undefined;
}

function newSettings(
  { type, version, storageGib }: Addon,
  options: Pick<ApplyOptions, "images" | "earlierImages" | "storage">,
): FixedSettings {
  const { size, className } = options.storage;
  const image = imageFor(type, version, imagesOf(type, options));
  return {
    image,
    storage: storageGib === undefined ? size : quantityOf(storageGib),
    storageClass: className,
  };
}

const hasStandby = ({ type, replicas = 1 }: Addon) => type === "redis" && replicas > 1;

/** Whether the volume of a standby is being removed. */
const shrinks = (set: Pick<V1StatefulSet, "spec"> | undefined) =>
  set?.spec?.persistentVolumeClaimRetentionPolicy?.whenScaled === "Delete";
