import type {
  V1NetworkPolicy,
  V1NetworkPolicyEgressRule,
  V1NetworkPolicySpec,
  V1Secret,
  V1Service,
} from "@kubernetes/client-node";
import { sizes } from "../../../../kit/sizes.ts";
import type { Sent } from "../../../kube/client.ts";
import type { PostgresClusterObject } from "../../../kube/kinds.ts";
import { annotation, label, labelsOf, nameOf, namespaceOf, selector } from "../../../kube/names.ts";
import type { Placement } from "../../../kube/pods/placement.ts";
import { bytesOf, resourcesOf } from "../../../kube/pods/resources.ts";
import { addonName } from "../../keys.ts";
import type { Addon } from "../../port.ts";
import { GENERATION, MOVED, SIZE, STORAGE } from "../server/annotations.ts";
import type { ManifestOptions } from "../server/manifests.ts";
import { programs } from "../server/server-scripts.ts";

/** What a server keeps from its creation on: another version may not read its data. Whoever runs the installation may change both. */
export type FixedSettings = {
  image: string;
  /** The image that Berth moved it to last. */
  moved?: string;
  storage: string;
  storageClass?: string;
};

export type CnpgManifestOptions = ManifestOptions & {
  /** Where the operator runs, which reaches each instance. */
  operatorNamespace: string;
  /** Where instances reach DNS and the cluster's API, by which they learn who is the primary. */
  egress: V1NetworkPolicyEgressRule[];
  /** Where what they write is archived, so that each moment of their past can be restored; nowhere unless given. */
  archive?: Archive;
};

export type Archive = {
  endpoint: string;
  bucket: string;
  region: string;
  accessKey: string;
  secretKey: string;
  /** For how many days moments can be restored. */
  days: number;
  /** Where instances reach it, as NetworkPolicies name it. */
  to: V1NetworkPolicyEgressRule[];
};

/** When the size or the number of instances was changed last: usage counts the new ones from then on. */
export const CHANGED = annotation("changed-at");
/** The operator's labels of its pods. */
export const CLUSTER = "cnpg.io/cluster";
const ROLE = "cnpg.io/instanceRole";
/** By it the operator learns of a new password at once. */
const RELOAD = "cnpg.io/reload";

/** The operator's plugin that archives and recovers, and how it finds the archive of an addon. */
export const PLUGIN = "barman-cloud.cloudnative-pg.io";
export const archiveOf = (serviceId: string) => ({
  barmanObjectName: nameOf(serviceId),
  serverName: nameOf(serviceId),
});

const { postgres } = programs;
/** All of the memory is reserved: a server cannot give back what it holds. */
const RESERVED = { cpu: 0.2, memory: 1, storage: 0.05 };
/** Where the operator asks an instance how it is. */
const STATUS_PORT = 8000;
/** For a server to end after its clients were disconnected. */
const STOP_SECONDS = 60;

/** Returns the policy of an addon's instances; pure. What the environment itself may reach is in its own policies. */
export function policyOf(addon: Addon, options: CnpgManifestOptions): Sent<V1NetworkPolicy> {
  return { metadata: metadataOf(addon, options), spec: policySpec(nameOf(addon.serviceId), options) };
}

/** Returns what a Cluster's instances may reach, and who reaches them. */
export function policySpec(
  cluster: string,
  { operatorNamespace, egress, archive }: CnpgManifestOptions,
): V1NetworkPolicySpec {
  const ports = [STATUS_PORT, postgres.port].map((port) => ({ port, protocol: "TCP" }));
  const instances = { podSelector: { matchLabels: { [CLUSTER]: cluster } } };
  const operator = {
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": operatorNamespace } },
  };
  return {
    ...instances,
    policyTypes: ["Ingress", "Egress"],
    ingress: [
      { _from: [{ podSelector: {} }], ports: [{ port: postgres.port, protocol: "TCP" }] },
      { _from: [operator, instances], ports },
    ],
    egress: [{ to: [instances], ports }, ...egress, ...(archive?.to ?? [])],
  };
}

/**
 * Returns the Secret with the verifier of a password, from which it cannot be computed; pure. It keeps its name: the role
 * takes its next password from there, and no server starts anew.
 */
export function secretOf(addon: Addon, password: string, options: CnpgManifestOptions): Sent<V1Secret> {
  const { verifier = "" } = postgres.files(addon.serviceId, password);
  const toBase64 = (text: string) => Buffer.from(text).toString("base64");
  const metadata = metadataOf(addon, options);
  return {
    metadata: {
      ...metadata,
      labels: { ...metadata.labels, [RELOAD]: "true" },
      annotations: { [GENERATION]: String(addon.generation) },
    },
    type: "kubernetes.io/basic-auth",
    data: { username: toBase64(addonName(addon.serviceId)), password: toBase64(verifier) },
  };
}

/** Returns the Service of the addon's name, which leads to the primary; pure. */
export function serviceOf(addon: Addon, options: CnpgManifestOptions): Sent<V1Service> {
  const { port } = postgres;
  return {
    metadata: { ...metadataOf(addon, options), name: addon.name },
    spec: {
      type: "ClusterIP",
      selector: { [CLUSTER]: nameOf(addon.serviceId), [ROLE]: "primary" },
      ports: [{ name: addon.type, port, targetPort: port, protocol: "TCP" }],
    },
  };
}

/** Returns the Cluster of an addon; pure. */
export function clusterOf(
  addon: Addon,
  fixed: FixedSettings,
  changedAt: string | undefined,
  options: CnpgManifestOptions,
): Sent<PostgresClusterObject> {
  const { serviceId, accountId, projectId, environmentId, size, replicas = 1 } = addon;
  const { placement, pullSecret, user, archive } = options;
  const name = addonName(serviceId);
  const secret = { name: nameOf(serviceId) };
  const { memory } = sizes[size];
  return {
    metadata: {
      ...metadataOf(addon, options),
      annotations: {
        [SIZE]: size,
        ...(fixed.moved !== undefined && { [MOVED]: fixed.moved }),
        ...(changedAt !== undefined && { [CHANGED]: changedAt }),
        ...(addon.storageGib !== undefined && { [STORAGE]: String(addon.storageGib) }),
      },
    },
    spec: {
      instances: replicas,
      imageName: fixed.image,
      ...(user !== "any" && { postgresUID: user, postgresGID: user }),
      ...(pullSecret !== undefined && { imagePullSecrets: [{ name: pullSecret }] }),
      inheritedMetadata: {
        labels: ownLabels(labelsOf({ accountId, projectId, environmentId, serviceId, kind: "instance" })),
      },
      bootstrap: {
        initdb: {
          database: name,
          owner: name,
          secret,
          encoding: "UTF8",
          localeCollate: LOCALE,
          localeCType: LOCALE,
        },
      },
      ...(archive && { plugins: [{ name: PLUGIN, isWALArchiver: true, parameters: archiveOf(serviceId) }] }),
      // Its status says which version of the Secret the role has.
      managed: {
        roles: [{ name, ensure: "present", login: true, passwordSecret: secret }],
        services: { disabledDefaultServices: ["ro", "r"] },
      },
      storage: {
        size: fixed.storage,
        ...(fixed.storageClass !== undefined && { storageClass: fixed.storageClass }),
        resizeInUseVolumes: true,
      },
      postgresql: {
        ...(replicas > 1 && { synchronous: synchronous(replicas) }),
        parameters: {
          shared_buffers: `${Math.floor(memory / 4)}MB`,
          effective_cache_size: `${Math.floor(memory / 2)}MB`,
          // A volume may be small, and each standby has a slot that keeps what it needs.
          wal_keep_size: "64MB",
          ...walSizes(fixed.storage),
          // What is written is archived after so long, if there is too little of it to fill a file.
          ...(archive && { archive_timeout: "60s" }),
        },
      },
      resources: resourcesOf(size, RESERVED),
      affinity: affinityOf(placement),
      ...(placement?.priorityClassName !== undefined && { priorityClassName: placement.priorityClassName }),
      // A budget for a single server would keep its node from being drained.
      enablePDB: replicas > 1,
      monitoring: { disableDefaultQueries: true },
      smartShutdownTimeout: 1,
      stopDelay: STOP_SECONDS,
      switchoverDelay: STOP_SECONDS,
    },
  };
}

/**
 * A commit is confirmed once a standby has it, so that no failover loses it. While the only standby is away, commits go on
 * without; with two, one is away at most before they wait.
 */
const synchronous = (replicas: number) => ({
  method: "any",
  number: 1,
  dataDurability: replicas > 2 ? "required" : "preferred",
});

const MIB = 1024 ** 2;
/** PostgreSQL's own limit. */
const WAL_MB = 1024;

/**
 * Returns how much PostgreSQL writes ahead between checkpoints: a quarter of a small volume, which a bulk load would fill
 * otherwise. Undefined for larger ones. The operator refuses a limit that is not between the minimum and the volume.
 */
function walSizes(storage: string): Record<string, string> | undefined {
  const max = Math.max(Math.floor(bytesOf(storage) / MIB / 4), 48);
  return max < WAL_MB ? { min_wal_size: "32MB", max_wal_size: `${max}MB` } : undefined;
}

const LOCALE = "C.UTF-8";

/** Without those that the operator sets itself. */
export const ownLabels = (labels: Record<string, string>) =>
  Object.fromEntries(Object.entries(labels).filter(([name]) => !name.startsWith("app.kubernetes.io/")));

export function metadataOf(addon: Addon, { namespacePrefix }: Pick<ManifestOptions, "namespacePrefix">) {
  const { accountId, projectId, environmentId, serviceId, type } = addon;
  return {
    name: nameOf(serviceId),
    namespace: namespaceOf(namespacePrefix, environmentId),
    labels: {
      ...labelsOf({ accountId, projectId, environmentId, serviceId, kind: "addon" }),
      "app.kubernetes.io/name": type,
    },
  };
}

/** Returns where instances may run, in the operator's words. */
function affinityOf({ nodeSelector, tolerations, affinity }: Placement = {}) {
  const { nodeAffinity, podAffinity, podAntiAffinity } = affinity ?? {};
  return {
    // On different nodes where there are as many.
    enablePodAntiAffinity: true,
    ...(nodeSelector && { nodeSelector }),
    ...(tolerations && { tolerations }),
    ...(nodeAffinity && { nodeAffinity }),
    ...(podAffinity && { additionalPodAffinity: podAffinity }),
    ...(podAntiAffinity && { additionalPodAntiAffinity: podAntiAffinity }),
  };
}

/** Returns the selector of what Berth itself made of an addon. */
export const ofAddon = (serviceId: string) =>
  selector({ [label("serviceId")]: serviceId, [label("kind")]: "addon" });
