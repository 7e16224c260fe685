import type { V1Deployment } from "@kubernetes/client-node";
import type { Sent } from "../../../kube/client.ts";
import { annotation, label } from "../../../kube/names.ts";
import type { UsageChange } from "../../../terms/usage-change.ts";
import type { ServedHost } from "../../port.ts";
import { type AppRelease, type Manifests, ownLabels } from "./manifests.ts";

/** What a service's Deployment records in its annotations. Times in ms. */
export type ReleaseState = {
  release: AppRelease;
  manifests: Manifests;
  /** When this version and revision was first applied. */
  appliedAt: number;
  /** When this version and revision was first available. */
  healthyAt?: number;
  /** As in `RuntimeStatus`. */
  usage: UsageChange[];
  /** As `setHosts` set them. */
  hosts?: ServedHost[];
};

const VERSION = annotation("version");
const REVISION = annotation("revision");
const RELEASE = annotation("release");
const MANIFESTS = annotation("manifests");
const APPLIED = annotation("applied-at");
const HEALTHY = annotation("healthy-since");
const USAGE = annotation("usage");
const HOSTS = annotation("hosts");

/**
 * Returns the recorded state of a Deployment; undefined before a release was applied to it. Of a release that is scaled by
 * its CPU, the number of replicas is that of now.
 */
export function readState(deployment: V1Deployment): ReleaseState | undefined {
  const annotations = deployment.metadata?.annotations ?? {};
  const { [RELEASE]: release, [MANIFESTS]: manifests, [APPLIED]: applied, [HEALTHY]: healthy } = annotations;
  if (!release || !manifests) return undefined;
  return {
    release: replicasOfNow(JSON.parse(release), deployment),
    manifests: JSON.parse(manifests),
    appliedAt: Date.parse(applied ?? ""),
    ...(healthy && { healthyAt: Date.parse(healthy) }),
    usage: readUsage(annotations[USAGE]),
    ...(annotations[HOSTS] && { hosts: JSON.parse(annotations[HOSTS]) }),
  };
}

function replicasOfNow(release: AppRelease, { spec }: V1Deployment): AppRelease {
  const decided = release.autoscaling && spec?.replicas;
  return decided === undefined ? release : { ...release, replicas: decided };
}

function toAnnotations(recorded: ReleaseState): Record<string, string> {
  const { release, manifests, appliedAt, healthyAt, usage, hosts = [] } = recorded;
  return {
    [VERSION]: String(release.version),
    [REVISION]: String(release.revision),
    [RELEASE]: JSON.stringify(release),
    [MANIFESTS]: JSON.stringify(manifests),
    [APPLIED]: new Date(appliedAt).toISOString(),
    ...(healthyAt !== undefined && { [HEALTHY]: new Date(healthyAt).toISOString() }),
    [USAGE]: JSON.stringify(usage.map(({ at, replicas, size }) => [at, replicas, size])),
    ...(hosts.length > 0 && { [HOSTS]: JSON.stringify(hosts) }),
  };
}

/**
 * Returns all members that Berth sets in a Deployment, its recorded state included: applying removes what is left out.
 * The API refuses it (409) when the Deployment has changed, or was removed, since `seen` was read.
 */
export function withAnnotations(seen: V1Deployment, recorded: ReleaseState): Sent<V1Deployment> {
  const { name = "", namespace, uid, resourceVersion } = seen.metadata ?? {};
  const annotations = toAnnotations(recorded);
  const { release, manifests } = recorded;
  const labels = ownLabels(release);
  // Without it, the API would set it to 1 where nobody but Berth has set it yet.
  const scaled = release.autoscaling && { replicas: release.replicas };
  return {
    metadata: { name, namespace, uid, resourceVersion, labels, annotations },
    spec: { ...manifests.deployment, ...scaled },
  };
}

/** Returns the id of the service to which an object belongs; empty for another's. */
export function serviceIdOf({ metadata }: { metadata?: { labels?: Record<string, string> } }): string {
  return metadata?.labels?.[label("service")] ?? "";
}

function readUsage(text: string | undefined): UsageChange[] {
  const changes: [number, number, UsageChange["size"]][] = JSON.parse(text ?? "[]");
  return changes.map(([at, replicas, size]) => ({ at, replicas, ...(size && { size }) }));
}
