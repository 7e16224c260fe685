import type {
  V1Container,
  V1NetworkPolicy,
  V1PodSpec,
  V1Secret,
  V1Service,
  V1StatefulSet,
} from "@kubernetes/client-node";
import type { Sent } from "../../kube/client.ts";
import { annotation, label, labelsOf, nameOf, namespaceOf } from "../../kube/names.ts";
import { resourcesOf } from "../../kube/resources.ts";
import { sizes } from "../../runtime/sizes.ts";
import type { Addon } from "../port.ts";
import { DATA, FILES, passwordMark, programs } from "./server-scripts.ts";

/** What a server is made with and keeps: another image may not read its data, and a volume does not change. */
export type Kept = { image: string; storage: string; storageClass?: string };

export type ManifestOptions = {
  namespacePrefix: string;
  /** A Secret in each environment's namespace by which nodes pull images. */
  pullSecret?: string;
};

export type Objects = {
  secret: Sent<V1Secret>;
  service: Sent<V1Service>;
  policy: Sent<V1NetworkPolicy>;
  set: Sent<V1StatefulSet>;
};

/** `Addon.generation` of what was applied last. */
export const GENERATION = annotation("generation");
export const PASSWORD = annotation("password-mark");
export const SIZE = annotation("size");

/** Memory is wholly reserved: what a server holds cannot be given back. */
const RESERVED = { cpu: 0.2, memory: 1 };
// Any but root: the servers find the name that belongs to it in a file of ours.
const USER = 999;
const PASSWD = `postgres:x:${USER}:${USER}::/:/bin/sh\n`;
/** A server with much data needs long to read it, and a container that is killed meanwhile begins again. */
const START_SECONDS = 3_600;

/**
 * Everything of one addon; pure. All is named by its id but the Service, which apps reach by the addon's name.
 * Each password has a Secret of its own: a pod can never start with another than the one it was made for.
 */
export function addonObjects(addon: Addon, kept: Kept, password: string, options: ManifestOptions): Objects {
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
      data: encoded({ passwd: PASSWD, ...files(serviceId, password) }),
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
      metadata: { ...metadata, annotations: { [GENERATION]: String(addon.generation) } },
      spec: {
        replicas: 1,
        serviceName: service,
        selector: { matchLabels: selector },
        // A pod that never became ready is replaced too when it should be another.
        podManagementPolicy: "Parallel",
        updateStrategy: { type: "RollingUpdate" },
        revisionHistoryLimit: 2,
        persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Retain" },
        template: {
          metadata: {
            labels,
            annotations: { [PASSWORD]: passwordMark(password), [SIZE]: addon.size },
          },
          spec: podSpec(addon, kept, secretName(serviceId, password), options.pullSecret),
        },
        volumeClaimTemplates: [
          {
            apiVersion: "v1",
            kind: "PersistentVolumeClaim",
            metadata: { name: "data", labels },
            spec: {
              accessModes: ["ReadWriteOnce"],
              resources: { requests: { storage: kept.storage } },
              ...(kept.storageClass !== undefined && { storageClassName: kept.storageClass }),
            },
          },
        ],
      },
    },
  };
}

/** The labels of all that belongs to an addon. */
function addonLabels({ accountId, projectId, environmentId, serviceId, type }: Addon) {
  return {
    ...labelsOf({ accountId, projectId, environmentId, serviceId, kind: "addon" }),
    "app.kubernetes.io/name": type,
  };
}

/** The name of the Secret that goes with a password. */
export function secretName(serviceId: string, password: string): string {
  return `${nameOf(serviceId)}-${passwordMark(password).slice(0, 12)}`;
}

function podSpec(addon: Addon, { image }: Kept, secretName: string, pullSecret?: string): V1PodSpec {
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 60,
    ...(pullSecret !== undefined && { imagePullSecrets: [{ name: pullSecret }] }),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      fsGroup: USER,
      fsGroupChangePolicy: "OnRootMismatch",
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [container(addon, image)],
    volumes: [
      { name: "files", secret: { secretName, defaultMode: 0o440 } },
      { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
      { name: "shm", emptyDir: { medium: "Memory" } },
    ],
  };
}

function container({ serviceId, type, size }: Addon, image: string): V1Container {
  const { port, start, probe, stop } = programs[type];
  const asking = { exec: { command: ["/bin/sh", "-c", probe] }, timeoutSeconds: 5 };
  return {
    name: type,
    image,
    command: ["/bin/sh", "-c", start(serviceId, sizes[size].memory)],
    ports: [{ name: type, containerPort: port, protocol: "TCP" }],
    resources: resourcesOf(size, RESERVED),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    // None that kills: a server that is busy is not helped by a new start.
    startupProbe: { ...asking, periodSeconds: 1, failureThreshold: START_SECONDS },
    readinessProbe: { ...asking, periodSeconds: 10, failureThreshold: 3 },
    ...(stop && { lifecycle: { preStop: { exec: { command: ["/bin/sh", "-c", stop] } } } }),
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [
      { name: "data", mountPath: DATA },
      { name: "files", mountPath: FILES, readOnly: true },
      { name: "files", mountPath: "/etc/passwd", subPath: "passwd", readOnly: true },
      { name: "tmp", mountPath: "/tmp" },
      { name: "shm", mountPath: "/dev/shm" },
    ],
  };
}

function encoded(files: Record<string, string>): Record<string, string> {
  const encode = (text: string) => Buffer.from(text).toString("base64");
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [name, encode(text)]));
}
