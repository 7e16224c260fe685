import type { V1Deployment } from "@kubernetes/client-node";
import type { Sent } from "../../../kube/client.ts";
import { annotation, label } from "../../../kube/names.ts";
import type { UsageChange } from "../../../terms/usage-change.ts";
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
};

const VERSION = annotation("version");
const REVISION = annotation("revision");
const RELEASE = annotation("release");
const MANIFESTS = annotation("manifests");
const APPLIED = annotation("applied-at");
const HEALTHY = annotation("healthy-since");
const USAGE = annotation("usage");

/** Returns the recorded state of a Deployment; undefined before a release was applied to it. */
export function readState(deployment: V1Deployment): ReleaseState | undefined {
  const annotations = deployment.metadata?.annotations ?? {};
  const { [RELEASE]: release, [MANIFESTS]: manifests, [APPLIED]: applied, [HEALTHY]: healthy } = annotations;
  if (!release || !manifests) return undefined;
  return {
    release: JSON.parse(release),
    manifests: JSON.parse(manifests),
    appliedAt: Date.parse(applied ?? ""),
    ...(healthy && { healthyAt: Date.parse(healthy) }),
    usage: readUsage(annotations[USAGE]),
  };
}

function toAnnotations(recorded: ReleaseState): Record<string, string> {
  const { release, manifests, appliedAt, healthyAt, usage } = recorded;
  return {
    [VERSION]: String(release.version),
    [REVISION]: String(release.revision),
    [RELEASE]: JSON.stringify(release),
    [MANIFESTS]: JSON.stringify(manifests),
    [APPLIED]: new Date(appliedAt).toISOString(),
    ...(healthyAt !== undefined && { [HEALTHY]: new Date(healthyAt).toISOString() }),
    [USAGE]: JSON.stringify(usage.map(({ at, replicas, size }) => [at, replicas, size])),
  };
}

/**
 * Returns all members that Berth sets in a Deployment, its recorded state included: applying removes what is left out.
 * The API refuses it (409) when the Deployment has changed, or was removed, since `seen` was read.
 */
export function withAnnotations(seen: V1Deployment, recorded: ReleaseState): Sent<V1Deployment> {
  const { name = "", namespace, uid, resourceVersion } = seen.metadata ?? {};
  const annotations = toAnnotations(recorded);
  const labels = ownLabels(recorded.release);
  return {
    metadata: { name, namespace, uid, resourceVersion, labels, annotations },
    spec: recorded.manifests.deployment,
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
