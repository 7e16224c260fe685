import type { KubernetesObject, V1NetworkPolicy, V1Secret } from "@kubernetes/client-node";
import type { Sent } from "../../../kube/client.ts";
import type { ArchiveObject, PostgresClusterObject } from "../../../kube/kinds.ts";
import { annotation, label, labelsOf, nameOf } from "../../../kube/names.ts";
import { addonName } from "../../keys.ts";
import type { Addon } from "../../port.ts";
import {
  type Archive,
  archiveOf,
  type CnpgManifestOptions,
  clusterOf,
  metadataOf,
  ownLabels,
  PLUGIN,
  policySpec,
} from "./manifests.ts";

/** The archive of an addon's past, and the server that has its data of a moment for as long as those are copied. */

/** The moment of a server of that kind. */
export const MOMENT = annotation("moment");
const ORIGIN = "origin";
/** Of the plugin's container, beside each server. */
const RESOURCES = {
  requests: { cpu: "25m", memory: "128Mi", "ephemeral-storage": "16Mi" },
  limits: { cpu: "500m", memory: "256Mi", "ephemeral-storage": "256Mi" },
};
/** Base backups are spread over these hours, in UTC: recovering reads what was written since the last one. */
const HOURS = 5;

/** Returns the beginning of the names of all objects of an addon's archive, in the bucket. */
export const archivePrefix = (serviceId: string) => `addons/${serviceId}/`;

/** Returns the name of what an addon has for its archive besides the object of the addon's own name. */
export const archiveName = (serviceId: string) => `${nameOf(serviceId)}-archive`;

/** Returns the name of the server of a moment. */
export const momentName = (serviceId: string) => `${nameOf(serviceId)}-moment`;

/** Returns the login to the bucket; pure. Only the plugin's container has it. */
export function archiveSecretOf(
  addon: Addon,
  archive: Archive,
  options: CnpgManifestOptions,
): Sent<V1Secret> {
  const toBase64 = (text: string) => Buffer.from(text).toString("base64");
  const { accessKey, secretKey, region } = archive;
  return {
    metadata: { ...metadataOf(addon, options), name: archiveName(addon.serviceId) },
    type: "Opaque",
    data: {
      "access-key": toBase64(accessKey),
      "secret-key": toBase64(secretKey),
      region: toBase64(region),
    },
  };
}

/** Returns where the plugin finds the archive of an addon; pure. */
export function objectStoreOf(
  addon: Addon,
  archive: Archive,
  options: CnpgManifestOptions,
): Sent<ArchiveObject> {
  const key = (name: string) => ({ name: archiveName(addon.serviceId), key: name });
  return {
    metadata: metadataOf(addon, options),
    spec: {
      configuration: {
        destinationPath: `s3://${archive.bucket}/${archivePrefix(addon.serviceId)}`,
        endpointURL: archive.endpoint,
        s3Credentials: {
          accessKeyId: key("access-key"),
          secretAccessKey: key("secret-key"),
          region: key("region"),
        },
        wal: { compression: "gzip" },
        data: { compression: "gzip" },
      },
      retentionPolicy: `${archive.days}d`,
      instanceSidecarConfiguration: { resources: RESOURCES },
    },
  };
}

/** Returns when base backups of an addon are made: once it is there, and each night; pure. */
export function scheduledBackupOf(
  addon: Addon,
  cluster: PostgresClusterObject,
  options: CnpgManifestOptions,
): Sent<KubernetesObject & { spec: object }> {
  const minute = [...addon.serviceId].reduce((sum, one) => (sum * 31 + one.charCodeAt(0)) % (HOURS * 60), 0);
  return {
    metadata: {
      ...metadataOf(addon, options),
      ownerReferences: ownedBy(cluster),
    },
    spec: {
      schedule: `0 ${minute % 60} ${Math.floor(minute / 60)} * * *`,
      immediate: true,
      backupOwnerReference: "cluster",
      cluster: { name: nameOf(addon.serviceId) },
      method: "plugin",
      pluginConfiguration: { name: PLUGIN },
    },
  };
}

/** Returns the server that has an addon's data of a moment; pure. */
export function momentClusterOf(
  addon: Addon,
  at: Date,
  server: PostgresClusterObject,
  options: CnpgManifestOptions,
): Sent<PostgresClusterObject> {
  const { archive: _, ...rest } = options;
  const { imageName, storage } = server.spec!;
  const fixed = { image: imageName, storage: storage.size, storageClass: storage.storageClass };
  const { spec } = clusterOf({ ...addon, replicas: 1 }, fixed, undefined, rest);
  const name = addonName(addon.serviceId);
  return {
    metadata: { ...momentMetadata(addon, server, options), annotations: { [MOMENT]: at.toISOString() } },
    spec: {
      ...spec!,
      inheritedMetadata: { labels: ownLabels(momentLabels(addon)) },
      bootstrap: {
        recovery: {
          source: ORIGIN,
          database: name,
          owner: name,
          secret: { name: nameOf(addon.serviceId) },
          recoveryTarget: { targetTime: at.toISOString() },
        },
      },
      // Without, its pod would be made once more, when it has recovered, to be rid of the plugin's container. What it writes
      // itself goes elsewhere.
      plugins: [
        {
          name: PLUGIN,
          isWALArchiver: false,
          parameters: { ...archiveOf(addon.serviceId), serverName: momentName(addon.serviceId) },
        },
      ],
      externalClusters: [{ name: ORIGIN, plugin: { name: PLUGIN, parameters: archiveOf(addon.serviceId) } }],
    },
  };
}

/** Returns the policy of that server; pure. */
export function momentPolicyOf(
  addon: Addon,
  server: PostgresClusterObject,
  options: CnpgManifestOptions,
): Sent<V1NetworkPolicy> {
  return {
    metadata: momentMetadata(addon, server, options),
    spec: policySpec(momentName(addon.serviceId), options),
  };
}

/** Nothing that looks for the addon's own objects finds these. */
const momentLabels = ({ accountId, projectId, environmentId, serviceId }: Addon) => ({
  ...labelsOf({ accountId, projectId, environmentId, kind: "moment" }),
  [label("moment")]: serviceId,
});

const momentMetadata = (addon: Addon, server: PostgresClusterObject, options: CnpgManifestOptions) => ({
  name: momentName(addon.serviceId),
  namespace: metadataOf(addon, options).namespace,
  labels: momentLabels(addon),
  ownerReferences: ownedBy(server),
});

/** Has Kubernetes remove it with the server of the addon, also what a process makes that does not know yet that it is gone. */
function ownedBy({ metadata }: PostgresClusterObject) {
  const { name = "", uid = "" } = metadata ?? {};
  return [{ apiVersion: "postgresql.cnpg.io/v1", kind: "Cluster", name, uid, blockOwnerDeletion: false }];
}
