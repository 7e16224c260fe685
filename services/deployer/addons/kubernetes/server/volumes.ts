import { isStatus, type Kube } from "../../../kube/client.ts";
import { PersistentVolumeClaim } from "../../../kube/kinds.ts";
import { bytesOf } from "../../../kube/pods/resources.ts";
import type { Logger } from "../../../shared/logger.ts";

/**
 * Requests that the volumes of a namespace that have these labels grow to `size`; larger ones stay. A cluster refuses it
 * where the storage class does not allow it, or a quota: such a volume stays as it is, which is logged.
 */
export async function growVolumes(
  { kube, log, size }: { kube: Kube; log: Logger; size: string },
  given: { namespace: string; labels: string },
): Promise<void> {
  const { items } = await kube.list(PersistentVolumeClaim, given);
  for (const { metadata = {}, spec } of items) {
    const { name = "", namespace, deletionTimestamp } = metadata;
    const storage = spec?.resources?.requests?.storage;
    if (deletionTimestamp || !storage || !(bytesOf(storage) < bytesOf(size))) continue;
    const larger = { metadata: { name, namespace }, spec: { resources: { requests: { storage: size } } } };
    await kube.merge(PersistentVolumeClaim, larger).then(
      () => log.info({ namespace, volume: name, from: storage, to: size }, "the volume of an addon grows"),
      (err) => {
        if (!isStatus(err, 403, 422)) throw err;
        log.warn({ err, namespace, volume: name }, "the cluster does not let the volume of an addon grow");
      },
    );
  }
}
