import type {
  V1AppArmorProfile,
  V1Container,
  V1Job,
  V1PodSpec,
  V1SecurityContext,
  V1Volume,
} from "@kubernetes/client-node";
import type { Sent } from "../../kube/client.ts";
import { labelsOf, nameOf } from "../../kube/names.ts";
import type { Placement } from "../../kube/pods/placement.ts";
import { type JobRequest, PATHS, REQUEST_VARIABLE } from "./job-request.ts";

/** How builds run on a cluster. */
export type JobSettings = {
  /** The namespace of all builds. */
  namespace: string;
  image: string;
  /** A profile on the nodes; without one, builds are unconfined, because the default forbids rootless builds. */
  seccompProfile?: string;
  /** A profile on the nodes, or `unconfined`; without one, the container runtime's default, which forbids mounts. */
  appArmorProfile?: string;
  /** Runs builds as root in a user namespace of their pod, on clusters that support it. */
  userNamespaces: boolean;
  resources: { requests?: Record<string, string>; limits?: Record<string, string> };
  /** A ConfigMap of the namespace whose `ca.crt` is a complete bundle of certificates. */
  extraCaBundle?: string;
  /** A Secret of the namespace by which nodes pull the builder's image. */
  pullSecret?: string;
  /** Any node unless given. */
  placement?: Placement;
};

/** The time a pod may take to be scheduled and to pull its image, in addition to the build's. */
const START_SECONDS = 120;
/** How long a Job is kept whose result nobody reads. */
const KEPT_SECONDS = 3_600;
export const CONTAINER_NAME = "build";
const REQUEST_KEY = "request";

/** Returns the name of a build's Job and of its Secret. */
export const jobName = nameOf;

/** Returns the labels of a build's objects. */
export function buildLabels(buildId: string, serviceId?: string): Record<string, string> {
  return { ...labelsOf({ kind: "build", serviceId }), "berth.dev/build": buildId };
}

/** Returns the Secret with a build's request. */
export function toSecret(settings: JobSettings, request: JobRequest) {
  const { buildId, serviceId } = request;
  const metadata = {
    name: jobName(buildId),
    namespace: settings.namespace,
    labels: buildLabels(buildId, serviceId),
  };
  return { metadata, type: "Opaque", stringData: { [REQUEST_KEY]: JSON.stringify(request) } };
}

/** Returns the change that makes a Job the owner of its Secret, so that the cluster removes both together. */
export function toOwnerPatch(job: V1Job) {
  const { name = "", namespace, uid = "" } = job.metadata ?? {};
  const owner = { apiVersion: "batch/v1", kind: "Job", name, uid };
  return { metadata: { name, namespace, ownerReferences: [owner] } };
}

/** Returns the Job of a build: one pod, without retries, which ends by its deadline at the latest. */
export function toJob(settings: JobSettings, request: JobRequest): Sent<V1Job> {
  const { buildId, serviceId, timeoutMs } = request;
  const labels = buildLabels(buildId, serviceId);
  return {
    metadata: { name: jobName(buildId), namespace: settings.namespace, labels },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: Math.ceil(timeoutMs / 1000) + START_SECONDS,
      ttlSecondsAfterFinished: KEPT_SECONDS,
      template: { metadata: { labels }, spec: toPodSpec(settings, buildId) },
    },
  };
}

function toPodSpec(settings: JobSettings, buildId: string): V1PodSpec {
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
    ...settings.placement,
    restartPolicy: "Never",
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 5,
    ...(pullSecret && { imagePullSecrets: [{ name: pullSecret }] }),
    ...(userNamespaces && { hostUsers: false }),
    securityContext: { fsGroup: userNamespaces ? 0 : 1000 },
    containers: [toContainer(settings, buildId)],
    volumes,
  };
}

function toContainer(settings: JobSettings, buildId: string): V1Container {
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
    securityContext: toSecurityContext(settings),
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
 * Returns the rights that a rootless build needs: a range of users of its own (the two capabilities, and permission to
 * gain them), and mounts inside its namespace (which the default seccomp profile forbids).
 */
function toSecurityContext(settings: JobSettings): V1SecurityContext {
  const { seccompProfile, userNamespaces } = settings;
  const appArmorProfile = settings.appArmorProfile && {
    appArmorProfile: toAppArmor(settings.appArmorProfile),
  };
  if (userNamespaces)
    return {
      ...appArmorProfile,
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
    ...appArmorProfile,
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

function toAppArmor(profile: string): V1AppArmorProfile {
  return profile === "unconfined" ? { type: "Unconfined" } : { type: "Localhost", localhostProfile: profile };
}
