import { randomBytes } from "node:crypto";
import { mkdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { KubernetesObject } from "@kubernetes/client-node";
import { run, works } from "../../deploy/cluster/commands.ts";
import { findNodeProcess } from "../../deploy/cluster/node/host.ts";
import { folders, nodeName } from "../../deploy/cluster/settings.ts";
import type { Kind, Kube } from "../../services/deployer/kube/client.ts";
import { PersistentVolumeClaim } from "../../services/deployer/kube/kinds.ts";
import { eventually } from "../../services/kit/testing/testing.ts";

type Other = KubernetesObject & Record<string, unknown>;
const StorageClass: Kind<Other> = {
  ...{ apiVersion: "storage.k8s.io/v1", kind: "StorageClass", plural: "storageclasses" },
};
const PersistentVolume: Kind<Other> = {
  ...{ apiVersion: "v1", kind: "PersistentVolume", plural: "persistentvolumes" },
};

const GIB = 1024 ** 3;
const MOST_GIB = 2;
/** A file that takes the room that a volume does not have yet: to enlarge a file system in use needs rights that root may lack. */
const RESERVE = "reserve";

/** Whether a volume with a file system of its own can be made here; where not, says once what is skipped for it. */
export async function canMakeSmallVolumes(skipped: string): Promise<boolean> {
  const own = (await findNodeProcess()) !== undefined && (await works("losetup", ["--find"]));
  if (!own)
    console.warn(`${skipped} skipped: the cluster is not this machine's own, or has no loop devices.`);
  return own;
}

/**
 * Makes a volume of 1 GiB with a file system of its own, which can really be full and grow: the throw-away cluster's usual ones
 * are folders of this machine's disk. `className`: the storage class of the addon that takes it; `path`: where this machine
 * reaches its files.
 */
export async function makeSmallVolume(kube: Kube) {
  const node = await findNodeProcess();
  if (node === undefined) throw new Error("the throw-away cluster is not up");
  const pid = (await readFile(`/proc/${node}/task/${node}/children`, "utf8")).trim();
  const inNode = (...command: string[]) => run("nsenter", ["-t", pid, "-m", "-p", ...command]);
  const name = `small-${randomBytes(3).toString("hex")}`;
  const dir = join(folders.node, name);
  const [image, mountPoint] = [join(dir, "image"), join(dir, "volume")];
  const path = join(`/proc/${pid}/root`, mountPoint);

  await mkdir(mountPoint, { recursive: true });
  await writeFile(image, "");
  await truncate(image, MOST_GIB * GIB);
  await run("mkfs.ext4", ["-q", "-m", "0", image]);
  await inNode("mount", "-o", "loop", image, mountPoint);
  await run("fallocate", ["-l", `${(MOST_GIB - 1) * GIB}`, join(path, RESERVE)]);
  await kube.apply(StorageClass, {
    metadata: { name },
    provisioner: "kubernetes.io/no-provisioner",
    allowVolumeExpansion: true,
    volumeBindingMode: "WaitForFirstConsumer",
  });
  const onNode = { key: "kubernetes.io/hostname", operator: "In", values: [nodeName] };
  await kube.apply(PersistentVolume, {
    metadata: { name },
    spec: {
      capacity: { storage: "1Gi" },
      accessModes: ["ReadWriteOnce"],
      persistentVolumeReclaimPolicy: "Retain",
      storageClassName: name,
      local: { path: mountPoint },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [onNode] }] } },
    },
  });

  return {
    className: name,
    path,
    /** As a storage driver does: lets it have 2 GiB once its claim requests them. */
    async grow(namespace: string): Promise<void> {
      await eventually("the claim requests it", async () => {
        const { items } = await kube.list(PersistentVolumeClaim, { namespace });
        const claim = items.find(({ spec }) => spec?.volumeName === name);
        return claim?.spec?.resources?.requests?.storage === `${MOST_GIB}Gi`;
      });
      await rm(join(path, RESERVE));
    },
    /** Removes it, whatever still uses it. */
    async remove(): Promise<void> {
      await kube.remove(PersistentVolume, name);
      await kube.remove(StorageClass, name);
      await inNode("umount", "-l", mountPoint);
      await rm(dir, { recursive: true, force: true });
    },
  };
}
