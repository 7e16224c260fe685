import { createHash } from "node:crypto";
import type {
  V1Container,
  V1Deployment,
  V1PodSpec,
  V1PodTemplateSpec,
  V1Probe,
  V1Secret,
  V1Service,
} from "@kubernetes/client-node";
import { withHostOfLogins } from "../../../images/image-reference.ts";
import type { Sent } from "../../../kube/client.ts";
import { annotation, label, labelsOf } from "../../../kube/names.ts";
import { resourcesOf } from "../../../kube/pods/resources.ts";
import { withExec } from "../../../shared/exec-command.ts";
import { imageRef } from "../../../terms/artifact.ts";
import { RuntimeRefusal } from "../../../terms/runtime-refusal.ts";
import type { Release } from "../../port.ts";
import { CONTAINER, PRIVATE, SCRAPED, selectorOf } from "../app-pods.ts";
import type { AppOptions, DoorOptions } from "../options.ts";
import { type AutoscalerSpec, autoscalerOf } from "./autoscaler.ts";
import { type Doors, doorsOf, type Target } from "./doors.ts";

/** What the cluster records of a release: everything but its variables. */
export type AppRelease = Omit<Release, "env">;

type Called = Pick<AppRelease, "objectName" | "serviceId"> & { names: Pick<AppRelease["names"], "service"> };

/** The port of that container. */
const PORT = "http";
/** At which other services of the environment reach it, and requests from outside. */
const SERVICE_PORT = 80;
/** A pod with constraints of its own gets none of the cluster's defaults, so both are named. */
const SPREAD_OVER = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];
/** Name of the Secret with which nodes pull images, in each namespace. */
export const PULL_SECRET = "berth-registry";

export type ManifestOptions = DoorOptions & {
  apps: AppOptions;
  /** Host name of a web service. */
  host?: string;
  pullSecret: boolean;
};

/** The objects of a release, except its Secret and the Deployment's annotations. */
export type Manifests = Doors & {
  deployment: NonNullable<V1Deployment["spec"]>;
  service?: NonNullable<V1Service["spec"]>;
  autoscaler?: AutoscalerSpec;
};

/** Returns the objects of a release; pure. Values are in the form in which the API returns them. */
export function manifestsOf(release: AppRelease, options: ManifestOptions): Manifests {
  const { type, replicas, minReadySeconds, autoscaling } = release;
  const { apps, ingress, httpRoute, host = "" } = options;
  const target = targetOf(release);
  const doors = { ingress, httpRoute, scheme: apps.scheme };
  const deadline = Math.ceil(apps.rolloutDeadlineMs / 1000);
  return {
    deployment: {
      // Left out where the autoscaler decides it, so that its changes are no drift.
      ...(!autoscaling && { replicas }),
      ...(minReadySeconds > 0 && { minReadySeconds }),
      // The API requires it to be longer than `minReadySeconds`.
      progressDeadlineSeconds: Math.max(deadline, minReadySeconds + 1),
      revisionHistoryLimit: 2,
      selector: { matchLabels: selectorOf(release.serviceId) },
      strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: "25%" } },
      template: templateOf(release, options),
    },
    ...(type === "web" && { service: serviceOf(release) }),
    ...(hasAddress(release) && doorsOf(target, host, doors)),
    ...(autoscaling && { autoscaler: autoscalerOf(release, autoscaling, objectName(release)) }),
  };
}

/** Returns whether a service is reached from outside its environment. */
export function hasAddress(release: Pick<AppRelease, "type" | "public">): boolean {
  return release.type === "web" && release.public !== false;
}

/** Returns the Service that requests from outside go to. */
export function targetOf(release: Pick<AppRelease, "names" | "objectName" | "serviceId">): Target {
  return { name: objectName(release), port: PORT, portNumber: SERVICE_PORT };
}

/** Returns the labels of a service's objects. */
export function ownLabels(release: AppRelease): Record<string, string> {
  const { accountId, projectId, environmentId, serviceId } = release;
  return labelsOf({ accountId, projectId, environmentId, serviceId, kind: "app" });
}

/**
 * Returns the name of a service's objects: that with which it was created, also after it was renamed. It may end in a way
 * that no object's name may.
 */
export function objectName(release: Called): string {
  const name = release.objectName ?? release.names.service;
  if (!name.endsWith("-")) return name;
  const hash = createHash("sha256").update(release.serviceId).digest("hex").slice(0, 8);
  return `${name.replace(/(?<!-)-+$/, "")}-${hash}`;
}

export function secretName(release: AppRelease): string {
  return `${objectName(release)}-v${release.version}-r${release.revision}`;
}

/** Returns the Secret with the release's variables. */
export function secretOf(release: Release, namespace: string, deployment: V1Deployment): Sent<V1Secret> {
  const { version, revision, env } = release;
  const data = Object.entries(env).map(([name, value]) => [name, Buffer.from(value).toString("base64")]);
  return {
    metadata: {
      name: secretName(release),
      namespace,
      labels: {
        ...ownLabels(release),
        [label("version")]: String(version),
        [label("revision")]: String(revision),
      },
      ownerReferences: [ownerOf(deployment)],
    },
    type: "Opaque",
    immutable: true,
    data: Object.fromEntries(data),
  };
}

/** Returns the reference that makes the cluster delete an object together with the Deployment. */
export function ownerOf({ metadata }: V1Deployment) {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    blockOwnerDeletion: false,
  };
}

/** Returns the image of an artifact as nodes pull it. Throws `artifact_missing` when it is no image. */
export function imageOf(artifact: string): string {
  const image = imageRef(artifact);
  if (image) return withHostOfLogins(image);
  throw new RuntimeRefusal(
    "artifact_missing",
    "This version was not built as an image, which a cluster needs. Deploy it again.",
  );
}

function templateOf(release: AppRelease, options: ManifestOptions): V1PodTemplateSpec {
  const labels = {
    ...ownLabels(release),
    [label("version")]: String(release.version),
    [label("revision")]: String(release.revision),
    ...(release.public === false && { [PRIVATE.key]: PRIVATE.value }),
    ...(release.metricsPath !== undefined && SCRAPED),
  };
  const spec = podOf(release, options);
  // Absent until the first one, so that services which ran before rolls existed are not rolled.
  const rolls = release.rolls ? { [annotation("rolls")]: String(release.rolls) } : {};
  const hash = createHash("sha256")
    .update(JSON.stringify([labels, spec, ...Object.values(rolls)]))
    .digest("hex")
    .slice(0, 16);
  const annotations = {
    [annotation("template")]: hash,
    [annotation("size")]: release.size,
    ...rolls,
    ...scrapeAnnotations(release),
  };
  return { metadata: { labels, annotations }, spec };
}

/** What most configurations of Prometheus look for on pods. */
function scrapeAnnotations({ metricsPath, port }: AppRelease): Record<string, string> {
  if (metricsPath === undefined) return {};
  return {
    "prometheus.io/scrape": "true",
    "prometheus.io/path": metricsPath,
    "prometheus.io/port": String(port),
  };
}

function podOf(release: AppRelease, { apps, pullSecret }: ManifestOptions): V1PodSpec {
  const web = release.type === "web";
  return {
    ...apps.placementOf?.(release.tier),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: apps.graceSeconds + (web ? apps.drainSeconds : 0),
    securityContext: {
      runAsNonRoot: true,
      seccompProfile: { type: "RuntimeDefault" },
      // Lets images listen on port 80 without being root.
      ...(web &&
        release.port < 1024 && {
          sysctls: [{ name: "net.ipv4.ip_unprivileged_port_start", value: "0" }],
        }),
    },
    ...(pullSecret && { imagePullSecrets: [{ name: PULL_SECRET }] }),
    topologySpreadConstraints: SPREAD_OVER.map((topologyKey) => ({
      maxSkew: 1,
      topologyKey,
      whenUnsatisfiable: "ScheduleAnyway",
      labelSelector: { matchLabels: selectorOf(release.serviceId) },
      matchLabelKeys: ["pod-template-hash"],
    })),
    containers: [containerOf(release, apps)],
  };
}

function containerOf(release: AppRelease, apps: AppOptions): V1Container {
  const { type, command, port } = release;
  return {
    name: CONTAINER,
    image: imageOf(release.artifact),
    ...(command !== undefined && { command: ["/bin/sh", "-c", withExec(command)] }),
    env: [{ name: "PORT", value: String(port) }],
    envFrom: [{ secretRef: { name: secretName(release) } }],
    resources: resourcesOf(release.size, apps.reserved),
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
    ...(type === "web" && {
      ports: [{ name: PORT, containerPort: port, protocol: "TCP" }],
      ...probesOf(release, apps),
      // Requests still reach a replica for a moment after it was removed from the endpoints.
      lifecycle: { preStop: { sleep: { seconds: apps.drainSeconds } } },
    }),
  };
}

function probesOf({ healthCheckPath }: AppRelease, apps: AppOptions): Partial<V1Container> {
  const probe: V1Probe =
    healthCheckPath === undefined
      ? { tcpSocket: { port: PORT } }
      : { httpGet: { path: healthCheckPath, port: PORT } };
  return {
    startupProbe: {
      ...probe,
      periodSeconds: 1,
      timeoutSeconds: 5,
      failureThreshold: Math.max(1, Math.ceil(apps.rolloutDeadlineMs / 1000)),
    },
    readinessProbe: { ...probe, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 3 },
    // Slow to act: an app must not be killed for being under load.
    livenessProbe: { ...probe, periodSeconds: 10, timeoutSeconds: 10, failureThreshold: 6 },
  };
}

function serviceOf({ serviceId, port }: AppRelease): NonNullable<V1Service["spec"]> {
  // Other services of the environment reach it by its name, at port 80 and at its own port.
  const ports = [{ name: PORT, port: SERVICE_PORT, targetPort: PORT, protocol: "TCP" }];
  if (port !== SERVICE_PORT) ports.push({ name: "own", port, targetPort: PORT, protocol: "TCP" });
  return { type: "ClusterIP", selector: selectorOf(serviceId), ports };
}
