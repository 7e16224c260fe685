import type {
  V1Affinity,
  V1Container,
  V1NetworkPolicy,
  V1NetworkPolicyEgressRule,
  V1PodSpec,
  V1Secret,
  V1Service,
  V1StatefulSet,
} from "@kubernetes/client-node";
import { sizes } from "../../../../kit/sizes.ts";
import type { Sent } from "../../../kube/client.ts";
import { label, labelsOf, nameOf, namespaceOf } from "../../../kube/names.ts";
import type { Placement } from "../../../kube/pods/placement.ts";
import { resourcesOf } from "../../../kube/pods/resources.ts";
import type { Addon } from "../../port.ts";
import {
  GENERATION,
  MOVED,
  PASSWORD,
  PRIMARY,
  REPLACED,
  REPLICATION,
  RESTORED,
  SIZE,
  STORAGE,
} from "./annotations.ts";
import { DATA, FILES, passwordMark, probeRole, programs, REPLICATION_FILES } from "./server-scripts.ts";

/** The ordinals of the pods of a server with a standby. */
export type Ordinal = 0 | 1;

/** Which of two servers takes writes. `replaced`: the uid of the pod that did before, and has to go. */
export type Pair = { primary: Ordinal; replaced?: string };

/**
 * What a server keeps from its creation on: the image of another version may not read its data, and a volume does not
 * change. `moved` is the image that Berth moved it to. `anyDisk`: it was created without a limit of local disk, and gets one
 * with the next change that restarts it anyway; until then the namespace's default limits it.
 */
export type FixedSettings = {
  image: string;
  moved?: string;
  storage: string;
  storageClass?: string;
  anyDisk?: boolean;
  /** The mark of the last restore, for the pods of its server. */
  restored?: string;
  /** Of one with a standby. */
  pair?: Pair & { replicationMark: string };
  /** It has just lost its standby, whose volume is being removed. */
  shrinks?: boolean;
};

export type ManifestOptions = {
  namespacePrefix: string;
  /** The Secret in each environment's namespace with which nodes pull images. */
  pullSecret?: string;
  /** Any node unless given. */
  placement?: Placement;
  /** Not root. Of `any`, the cluster chooses the number and gives it a name. */
  user: number | "any";
};

export type ServerOptions = ManifestOptions & {
  /** Where a standby finds the address of its primary. */
  dns: V1NetworkPolicyEgressRule;
};

export type Objects = {
  secret: Sent<V1Secret>;
  service: Sent<V1Service>;
  policy: Sent<V1NetworkPolicy>;
  set: Sent<V1StatefulSet>;
};

/** All of the memory is reserved: a server cannot give back what it holds. */
const RESERVED = { cpu: 0.2, memory: 1 };
/** Of local disk, which holds its output alone: the data has a volume. */
const RESERVED_DISK = 0.05;
/** A server with much data needs long to read it, and a container that is killed meanwhile starts over. */
const START_SECONDS = 3_600;

/**
 * Returns all objects of an addon; pure. They are named by its id, except the Service, which apps reach by the addon's
 * name. Each password has a Secret of its own, so a pod cannot start with another than the one it was made for.
 */
export function addonObjects(
  addon: Addon,
  fixed: FixedSettings,
  password: string,
  options: ServerOptions,
): Objects {
  const { serviceId, type, name: service } = addon;
  const { port, files } = programs[type];
  const namespace = namespaceOf(options.namespacePrefix, addon.environmentId);
  const labels = addonLabels(addon);
  const selector = { [label("serviceId")]: serviceId };
  const metadata = { name: nameOf(serviceId), namespace, labels };
  const { pair } = fixed;
  const ports = [{ port, protocol: "TCP" }];
  return {
    secret: {
      metadata: { ...metadata, name: secretName(serviceId, password) },
      type: "Opaque",
      immutable: true,
      data: encode({ ...passwdOf(options), ...files(serviceId, password) }),
    },
    service: serviceOf(addon, options, pair?.primary),
    policy: {
      metadata,
      spec: {
        podSelector: { matchLabels: selector },
        policyTypes: ["Ingress", "Egress"],
        ingress: [{ _from: [{ podSelector: {} }], ports }],
        egress: pair ? [{ to: [{ podSelector: { matchLabels: selector } }], ports }, options.dns] : [],
      },
    },
    set: {
      metadata: {
        ...metadata,
        annotations: {
          [GENERATION]: String(addon.generation),
          ...(fixed.moved !== undefined && { [MOVED]: fixed.moved }),
          ...(addon.storageGib !== undefined && { [STORAGE]: String(addon.storageGib) }),
          ...(pair?.replaced !== undefined && { [REPLACED]: pair.replaced }),
        },
      },
      spec: {
        replicas: pair ? 2 : 1,
        serviceName: service,
        selector: { matchLabels: selector },
        // Also replaces a pod that never became ready.
        podManagementPolicy: "Parallel",
        // Of two servers Berth restarts one after the other, and has them change places in between.
        updateStrategy: { type: pair ? "OnDelete" : "RollingUpdate" },
        revisionHistoryLimit: 2,
        persistentVolumeClaimRetentionPolicy: {
          whenDeleted: "Delete",
          // Not for longer than that takes: whoever scales it to zero for a while keeps the data.
          whenScaled: fixed.shrinks ? "Delete" : "Retain",
        },
        template: {
          metadata: {
            labels,
            annotations: {
              [PASSWORD]: passwordMark(password),
              [SIZE]: addon.size,
              ...(fixed.restored !== undefined && { [RESTORED]: fixed.restored }),
              ...(pair && { [PRIMARY]: String(pair.primary), [REPLICATION]: pair.replicationMark }),
            },
          },
          spec: podSpec(addon, fixed, secretName(serviceId, password), options),
        },
        volumeClaimTemplates: [
          {
            apiVersion: "v1",
            kind: "PersistentVolumeClaim",
            metadata: { name: "data", labels },
            spec: {
              accessModes: ["ReadWriteOnce"],
              resources: { requests: { storage: fixed.storage } },
              ...(fixed.storageClass !== undefined && { storageClassName: fixed.storageClass }),
            },
          },
        ],
      },
    },
  };
}

/**
 * Returns the Service of an addon, by whose name apps reach it; pure. With a standby, it leads to the pod of the primary alone,
 * whether that is ready or not.
 */
export function serviceOf(
  addon: Addon,
  { namespacePrefix }: Pick<ManifestOptions, "namespacePrefix">,
  primary?: Ordinal,
): Sent<V1Service> {
  const { serviceId, environmentId, type, name } = addon;
  const { port } = programs[type];
  const own = { [label("serviceId")]: serviceId };
  return {
    metadata: { name, namespace: namespaceOf(namespacePrefix, environmentId), labels: addonLabels(addon) },
    spec: {
      type: "ClusterIP",
      ...(primary === undefined
        ? { selector: own }
        : {
            selector: { ...own, [POD_NAME]: podName(serviceId, primary) },
            publishNotReadyAddresses: true,
          }),
      ports: [{ name: type, port, targetPort: port, protocol: "TCP" }],
    },
  };
}

/** The label that a StatefulSet gives each of its pods. */
export const POD_NAME = "statefulset.kubernetes.io/pod-name";
export const podName = (serviceId: string, ordinal: Ordinal) => `${nameOf(serviceId)}-${ordinal}`;

/** Returns the name of the Secret with which both servers of an addon with a standby reach each other. */
export const replicationName = (serviceId: string) => `${nameOf(serviceId)}-replication`;

/** Returns that Secret; pure. It outlives passwords, so that servers with different ones replicate. */
export function replicationSecret(
  addon: Addon,
  { namespacePrefix }: Pick<ManifestOptions, "namespacePrefix">,
  files: Record<string, string>,
): Sent<V1Secret> {
  const namespace = namespaceOf(namespacePrefix, addon.environmentId);
  return {
    metadata: { name: replicationName(addon.serviceId), namespace, labels: addonLabels(addon) },
    type: "Opaque",
    immutable: true,
    data: encode(files),
  };
}

/** Returns the labels of all objects of an addon. */
function addonLabels({ accountId, projectId, environmentId, serviceId, type }: Addon) {
  return {
    ...labelsOf({ accountId, projectId, environmentId, serviceId, kind: "addon" }),
    "app.kubernetes.io/name": type,
  };
}

/** Returns the name of a password's Secret. */
export function secretName(serviceId: string, password: string): string {
  return `${nameOf(serviceId)}-${passwordMark(password).slice(0, 12)}`;
}

/** Returns the file in which the servers look up the name of their user. */
export const passwdOf = ({ user }: Pick<ManifestOptions, "user">): Record<string, string> =>
  user === "any" ? {} : { passwd: `postgres:x:${user}:${user}::/:/bin/sh\n` };

function podSpec(
  addon: Addon,
  { image, anyDisk = false, restored, pair }: FixedSettings,
  secretName: string,
  { pullSecret, placement, user }: ManifestOptions,
): V1PodSpec {
  return {
    ...placement,
    ...(pair && { affinity: apart(addon, placement?.affinity) }),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 60,
    ...(pullSecret !== undefined && { imagePullSecrets: [{ name: pullSecret }] }),
    securityContext: {
      runAsNonRoot: true,
      ...(user !== "any" && { runAsUser: user, runAsGroup: user, fsGroup: user }),
      fsGroupChangePolicy: "OnRootMismatch",
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [container(addon, image, { passwd: user !== "any", anyDisk, restored, pair })],
    volumes: [
      { name: "files", secret: { secretName, defaultMode: 0o440 } },
      ...(pair
        ? [
            {
              name: "replication",
              secret: { secretName: replicationName(addon.serviceId), defaultMode: 0o440 },
            },
          ]
        : []),
      { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
      { name: "shm", emptyDir: { medium: "Memory" } },
    ],
  };
}

/** Returns where two servers run: on different nodes where there are as many. */
function apart({ serviceId }: Addon, affinity: V1Affinity | undefined): V1Affinity {
  const { podAntiAffinity } = affinity ?? {};
  const labelSelector = { matchLabels: { [label("serviceId")]: serviceId } };
  const preferred = "preferredDuringSchedulingIgnoredDuringExecution";
  const own = { weight: 100, podAffinityTerm: { labelSelector, topologyKey: "kubernetes.io/hostname" } };
  return {
    ...affinity,
    podAntiAffinity: { ...podAntiAffinity, [preferred]: [...(podAntiAffinity?.[preferred] ?? []), own] },
  };
}

function container(
  { serviceId, type, size, name: service }: Addon,
  image: string,
  {
    passwd,
    anyDisk,
    restored,
    pair,
  }: Pick<FixedSettings, "restored" | "pair"> & Record<"passwd" | "anyDisk", boolean>,
): V1Container {
  const { port, start, probe, stop } = programs[type];
  const probing = (script: string) => ({
    exec: { command: ["/bin/sh", "-c", script] },
    timeoutSeconds: 5,
  });
  const env = [
    ...(restored === undefined ? [] : [{ name: "RESTORE", value: restored }]),
    ...(pair
      ? [
          { name: "PRIMARY", value: String(pair.primary) },
          { name: "POD", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
        ]
      : []),
  ];
  return {
    name: type,
    image,
    command: ["/bin/sh", "-c", start(serviceId, sizes[size].memory, pair && service)],
    ...(env.length > 0 && { env }),
    ports: [{ name: type, containerPort: port, protocol: "TCP" }],
    resources: resourcesOf(size, anyDisk ? RESERVED : { ...RESERVED, storage: RESERVED_DISK }),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    // No liveness probe: a restart does not help a busy server.
    startupProbe: { ...probing(probe), periodSeconds: 1, failureThreshold: START_SECONDS },
    readinessProbe: { ...probing(pair ? probeRole() : probe), periodSeconds: 10, failureThreshold: 3 },
    ...(stop && { lifecycle: { preStop: { exec: { command: ["/bin/sh", "-c", stop] } } } }),
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [
      { name: "data", mountPath: DATA },
      { name: "files", mountPath: FILES, readOnly: true },
      ...(pair ? [{ name: "replication", mountPath: REPLICATION_FILES, readOnly: true }] : []),
      ...(passwd ? [{ name: "files", mountPath: "/etc/passwd", subPath: "passwd", readOnly: true }] : []),
      { name: "tmp", mountPath: "/tmp" },
      { name: "shm", mountPath: "/dev/shm" },
    ],
  };
}

function encode(files: Record<string, string>): Record<string, string> {
  const toBase64 = (text: string) => Buffer.from(text).toString("base64");
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [name, toBase64(text)]));
}
