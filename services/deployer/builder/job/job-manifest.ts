import type { V1Container, V1Job, V1PodSpec, V1SecurityContext, V1Volume } from "@kubernetes/client-node";
import type { Sent } from "../../kube/client.ts";
import { labelsOf, nameOf } from "../../kube/names.ts";
import { type JobRequest, PATHS, REQUEST_VARIABLE } from "./job-request.ts";

/** How builds run on this cluster. */
export type JobSettings = {
  /** Where all builds run. */
  namespace: string;
  image: string;
  /** A profile of the nodes' own; without it, none. The runtime's default forbids what rootless builds need. */
  seccompProfile?: string;
  /** Builds are root in a user namespace of their pod's own: for clusters that have such. */
  userNamespaces: boolean;
  resources: { requests?: Record<string, string>; limits?: Record<string, string> };
  /** A ConfigMap of the namespace, whose `ca.crt` is a whole bundle of certificates. */
  extraCaBundle?: string;
  /** A Secret of the namespace by which nodes pull the builder's image. */
  pullSecret?: string;
};

/** What a pod may take to be scheduled and to fetch its image, on top of its build's time. */
const START_SECONDS = 120;
/** How long a Job that nobody takes the result of is kept. */
const KEPT_SECONDS = 3_600;
export const CONTAINER_NAME = "build";
const REQUEST_KEY = "request";

/** Name of a build's Job, and of its Secret. */
export const jobName = nameOf;

/** The labels of everything that belongs to a build. */
export function buildLabels(buildId: string, serviceId?: string): Record<string, string> {
  return { ...labelsOf({ kind: "build", serviceId }), "berth.dev/build": buildId };
}

/** The Secret that holds what a build is given. It goes with its Job once it is `owned`. */
export function secretOf(settings: JobSettings, request: JobRequest) {
  const { buildId, serviceId } = request;
  const metadata = {
    name: jobName(buildId),
    namespace: settings.namespace,
    labels: buildLabels(buildId, serviceId),
  };
  return { metadata, type: "Opaque", stringData: { [REQUEST_KEY]: JSON.stringify(request) } };
}

/** Ties the Secret to its Job: the cluster removes both together. */
export function ownedBy(job: V1Job) {
  const { name = "", namespace, uid = "" } = job.metadata ?? {};
  const owner = { apiVersion: "batch/v1", kind: "Job", name, uid };
  return { metadata: { name, namespace, ownerReferences: [owner] } };
}

/** The Job of a build: one pod, tried once, which ends by its deadline at the latest. */
export function jobOf(settings: JobSettings, request: JobRequest): Sent<V1Job> {
  const { buildId, serviceId, timeoutMs } = request;
  const labels = buildLabels(buildId, serviceId);
  return {
    metadata: { name: jobName(buildId), namespace: settings.namespace, labels },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: Math.ceil(timeoutMs / 1000) + START_SECONDS,
      ttlSecondsAfterFinished: KEPT_SECONDS,
      template: { metadata: { labels }, spec: podOf(settings, buildId) },
    },
  };
}

function podOf(settings: JobSettings, buildId: string): V1PodSpec {
  const { extraCaBundle, pullSecret, userNamespaces } = settings;
  const volumes: V1Volume[] = [
    { name: "storage", emptyDir: {} },
    { name: "work", emptyDir: {} },
    { name: "run", emptyDir: { medium: "Memory", sizeLimit: "64Mi" } },
    { name: "tmp", emptyDir: {} },
  ];
  if (extraCaBundle)
    volumes.push({
      name: "ca",
      configMap: { name: extraCaBundle, items: [{ key: "ca.crt", path: "ca.crt" }] },
    });
  return {
    restartPolicy: "Never",
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 5,
    ...(pullSecret && { imagePullSecrets: [{ name: pullSecret }] }),
    ...(userNamespaces && { hostUsers: false }),
    securityContext: { fsGroup: userNamespaces ? 0 : 1000 },
    containers: [containerOf(settings, buildId)],
    volumes,
  };
}

function containerOf(settings: JobSettings, buildId: string): V1Container {
  const { image, resources, extraCaBundle } = settings;
  const bundle = `${PATHS.authorities}/ca.crt`;
  const secretKeyRef = { name: jobName(buildId), key: REQUEST_KEY };
  return {
    name: CONTAINER_NAME,
    image,
    command: ["node", "/app/services/deployer/builder/job/main.ts"],
    env: [
      { name: REQUEST_VARIABLE, valueFrom: { secretKeyRef } },
      ...(extraCaBundle ? [{ name: "NODE_EXTRA_CA_CERTS", value: bundle }] : []),
    ],
    resources,
    securityContext: securityOf(settings),
    terminationMessagePath: PATHS.terminationMessage,
    volumeMounts: [
      { name: "storage", mountPath: PATHS.storage },
      { name: "work", mountPath: PATHS.work },
      { name: "run", mountPath: PATHS.run },
      { name: "tmp", mountPath: "/tmp" },
      ...(extraCaBundle ? [{ name: "ca", mountPath: PATHS.authorities, readOnly: true }] : []),
    ],
  };
}

/**
 * What a rootless build needs and no more: a range of users of its own (the two capabilities, and leave to
 * gain them), and mounts inside its namespace (which the default seccomp profile forbids).
 */
function securityOf({ seccompProfile, userNamespaces }: JobSettings): V1SecurityContext {
  if (userNamespaces)
    return {
      runAsUser: 0,
      capabilities: {
        drop: ["ALL"],
        add: [
          "CHOWN",
          "DAC_OVERRIDE",
          "FOWNER",
          "FSETID",
          "MKNOD",
          "SETFCAP",
          "SETGID",
          "SETPCAP",
          "SETUID",
          "SYS_ADMIN",
          "SYS_CHROOT",
          "KILL",
        ],
      },
      seccompProfile: { type: "RuntimeDefault" },
    };
  return {
    runAsUser: 1000,
    runAsGroup: 1000,
    runAsNonRoot: true,
    allowPrivilegeEscalation: true,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"], add: ["SETUID", "SETGID"] },
    seccompProfile: seccompProfile
      ? { type: "Localhost", localhostProfile: seccompProfile }
      : { type: "Unconfined" },
  };
}
