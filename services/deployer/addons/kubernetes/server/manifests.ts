import type {
  V1Container,
  V1NetworkPolicy,
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
import { GENERATION, MOVED, PASSWORD, RESTORED, SIZE, STORAGE } from "./annotations.ts";
import { DATA, FILES, passwordMark, programs } from "./server-scripts.ts";

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
  options: ManifestOptions,
): Objects {
  const { serviceId, type, name: service } = addon;
  const { port, files } = programs[type];
  const namespace = namespaceOf(options.namespacePrefix, addon.environmentId);
  const labels = addonLabels(addon);
  const selector = { [label("serviceId")]: serviceId };
  const metadata = { name: nameOf(serviceId), namespace, labels };
  return {
    secret: {
      metadata: { ...metadata, name: secretName(serviceId, password) },
      type: "Opaque",
      immutable: true,
      data: encode({ ...passwdOf(options), ...files(serviceId, password) }),
    },
    service: {
      metadata: { ...metadata, name: service },
      spec: { type: "ClusterIP", selector, ports: [{ name: type, port, targetPort: port, protocol: "TCP" }] },
    },
    policy: {
      metadata,
      spec: {
        podSelector: { matchLabels: selector },
        policyTypes: ["Ingress", "Egress"],
        ingress: [{ _from: [{ podSelector: {} }], ports: [{ port, protocol: "TCP" }] }],
        egress: [],
      },
    },
    set: {
      metadata: {
        ...metadata,
        annotations: {
          [GENERATION]: String(addon.generation),
          ...(fixed.moved !== undefined && { [MOVED]: fixed.moved }),
          ...(addon.storageGib !== undefined && { [STORAGE]: String(addon.storageGib) }),
        },
      },
      spec: {
        replicas: 1,
        serviceName: service,
        selector: { matchLabels: selector },
        // Also replaces a pod that never became ready.
        podManagementPolicy: "Parallel",
        updateStrategy: { type: "RollingUpdate" },
        revisionHistoryLimit: 2,
        persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Retain" },
        template: {
          metadata: {
            labels,
            annotations: {
              [PASSWORD]: passwordMark(password),
              [SIZE]: addon.size,
              ...(fixed.restored !== undefined && { [RESTORED]: fixed.restored }),
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
  { image, anyDisk = false, restored }: FixedSettings,
  secretName: string,
  { pullSecret, placement, user }: ManifestOptions,
): V1PodSpec {
  return {
    ...placement,
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
    containers: [container(addon, image, { passwd: user !== "any", anyDisk, restored })],
    volumes: [
      { name: "files", secret: { secretName, defaultMode: 0o440 } },
      { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
      { name: "shm", emptyDir: { medium: "Memory" } },
    ],
  };
}

function container(
  { serviceId, type, size }: Addon,
  image: string,
  { passwd, anyDisk, restored }: { passwd: boolean; anyDisk: boolean; restored?: string },
): V1Container {
  const { port, start, probe, stop } = programs[type];
  const probing = { exec: { command: ["/bin/sh", "-c", probe] }, timeoutSeconds: 5 };
  return {
    name: type,
    image,
    command: ["/bin/sh", "-c", start(serviceId, sizes[size].memory)],
    ...(restored !== undefined && { env: [{ name: "RESTORE", value: restored }] }),
    ports: [{ name: type, containerPort: port, protocol: "TCP" }],
    resources: resourcesOf(size, anyDisk ? RESERVED : { ...RESERVED, storage: RESERVED_DISK }),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    // No liveness probe: a restart does not help a busy server.
    startupProbe: { ...probing, periodSeconds: 1, failureThreshold: START_SECONDS },
    readinessProbe: { ...probing, periodSeconds: 10, failureThreshold: 3 },
    ...(stop && { lifecycle: { preStop: { exec: { command: ["/bin/sh", "-c", stop] } } } }),
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [
      { name: "data", mountPath: DATA },
      { name: "files", mountPath: FILES, readOnly: true },
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
