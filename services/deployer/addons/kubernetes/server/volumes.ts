import type { V1StatefulSet } from "@kubernetes/client-node";
import { isStatus, type Kube } from "../../../kube/client.ts";
import { PersistentVolumeClaim } from "../../../kube/kinds.ts";
import { label, namespaceOf, selector } from "../../../kube/names.ts";
import { bytesOf } from "../../../kube/pods/resources.ts";
import type { Logger } from "../../../shared/logger.ts";
import { toStorableText } from "../../../terms/storable-text.ts";
import type { PlacedAddon } from "../../port.ts";
import { STORAGE } from "./annotations.ts";

type Volumes = { namespace: string; labels: string };

/** Characters of the cluster's own words in a message. */
const MAX_QUOTE = 300;

/** Returns a number of GiB as the cluster takes it. */
export const quantityOf = (gib: number) => `${gib}Gi`;

/** Returns the larger one of two sizes. */
export function largerOf(one: string, other: string | undefined): string {
  return other !== undefined && bytesOf(other) > bytesOf(one) ? other : one;
}

/** Returns where the volumes of an addon are. */
export const volumesOf = (
  namespacePrefix: string,
  { serviceId, environmentId }: Pick<PlacedAddon, "serviceId" | "environmentId">,
): Volumes => ({
  namespace: namespaceOf(namespacePrefix, environmentId),
  labels: selector({ [label("serviceId")]: serviceId, [label("kind")]: "addon" }),
});

/** Returns the size that users asked for of the volume of a server. */
export function askedOf(set: V1StatefulSet | undefined): string | undefined {
  const gib = set?.metadata?.annotations?.[STORAGE];
  return gib === undefined ? undefined : quantityOf(Number(gib));
}

/**
 * Returns what says how large the volume of a service is to be at least: as its users asked, and `growTo`. Undefined where all
 * keep what they have.
 */
export function sizesOf(sets: V1StatefulSet[], growTo: string | undefined) {
  const asked = new Map(sets.map((set) => [set.metadata?.labels?.[label("serviceId")], askedOf(set)]));
  if (growTo === undefined && [...asked.values()].every((size) => size === undefined)) return undefined;
  return (serviceId: string | undefined) => {
    const own = asked.get(serviceId);
    return growTo !== undefined && own !== undefined ? largerOf(growTo, own) : (own ?? growTo);
  };
}

/** Returns how many bytes the smallest of these volumes is to have; undefined where there is none. */
export async function smallestVolume(kube: Kube, given: Volumes): Promise<number | undefined> {
  const sizes = (await listVolumes(kube, given)).map(({ storage }) => bytesOf(storage));
  return sizes.length > 0 ? Math.min(...sizes) : undefined;
}

/**
 * Requests that volumes grow to the size that `sizeFor` returns for the service they belong to; larger ones stay. A cluster
 * refuses it where the storage class does not allow it, or a quota: such a volume stays as it is, which is logged.
 */
export async function growVolumes(
  { kube, log }: { kube: Kube; log: Logger },
  given: Volumes,
  sizeFor: (serviceId: string | undefined) => string | undefined,
): Promise<void> {
  for (const { name, namespace, serviceId, storage } of await listVolumes(kube, given)) {
    const size = sizeFor(serviceId);
    if (size === undefined || bytesOf(storage) >= bytesOf(size)) continue;
    await kube.merge(PersistentVolumeClaim, larger({ name, namespace }, size)).then(
      () => log.info({ namespace, volume: name, from: storage, to: size }, "the volume of an addon grows"),
      (err) => {
        if (!isStatus(err, 403, 422)) throw err;
        log.warn({ err, namespace, volume: name }, "the cluster does not let the volume of an addon grow");
      },
    );
  }
}

/** Returns why the cluster would not let one of these volumes grow to `size`, as a sentence; undefined where it would. */
export async function refusesGrowth(kube: Kube, given: Volumes, size: string): Promise<string | undefined> {
  for (const { name, namespace, storage } of await listVolumes(kube, given)) {
    if (bytesOf(storage) >= bytesOf(size)) continue;
    try {
      await kube.merge(PersistentVolumeClaim, larger({ name, namespace }, size), { dryRun: true });
    } catch (error) {
      if (!isStatus(error, 403, 422)) throw error;
      return `The cluster does not let the volume grow: ${wordsOf(error)}`;
    }
  }
  return undefined;
}

async function listVolumes(kube: Kube, given: Volumes) {
  const { items } = await kube.list(PersistentVolumeClaim, given);
  return items.flatMap(({ metadata = {}, spec }) => {
    const { name = "", namespace, labels, deletionTimestamp } = metadata;
    const storage = spec?.resources?.requests?.storage;
    return deletionTimestamp || !storage
      ? []
      : { name, namespace, storage, serviceId: labels?.[label("serviceId")] };
  });
}

const larger = (metadata: { name: string; namespace?: string }, storage: string) => ({
  metadata,
  spec: { resources: { requests: { storage } } },
});

/** Returns what the cluster's API says in an error. */
export function wordsOf(error: unknown): string {
  const { message } = bodyOf(error);
  return toStorableText(message ?? "no reason was given").slice(0, MAX_QUOTE);
}

function bodyOf(error: unknown): { message?: string } {
  try {
    const { body } = error as { body?: unknown };
    return (typeof body === "string" ? JSON.parse(body) : body) ?? {};
  } catch {
    // Something between the API and this process answered.
    return {};
  }
}
