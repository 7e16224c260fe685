import type { V1Deployment } from "@kubernetes/client-node";
import type { Sent } from "../../../kube/client.ts";
import { annotation, label } from "../../../kube/names.ts";
import type { UsageChange } from "../../port.ts";
import { type AppRelease, type Manifests, ownLabels } from "./manifests.ts";

/** What a service's Deployment remembers in its annotations, besides what it is. */
export type ReleaseState = {
  release: AppRelease;
  manifests: Manifests;
  /** ms. When this version and revision was applied first. */
  appliedAt: number;
  /** ms. When this version and revision was available first. */
  healthyAt?: number;
  /** What ran, and since when. */
  usage: UsageChange[];
};

const VERSION = annotation("version");
const REVISION = annotation("revision");
const RELEASE = annotation("release");
const MANIFESTS = annotation("manifests");
const APPLIED = annotation("applied-at");
const HEALTHY = annotation("healthy-since");
const USAGE = annotation("usage");

/** Returns the recorded state of a Deployment; undefined for one to which nothing was applied yet. */
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
 * The Deployment with all that Berth sets in it, its recorded state included: what an apply leaves out, it takes away.
 * It is refused when the Deployment changed since `seen` was read.
 */
export function withAnnotations(seen: V1Deployment, recorded: ReleaseState): Sent<V1Deployment> {
  const { name = "", namespace, resourceVersion } = seen.metadata ?? {};
  const annotations = toAnnotations(recorded);
  const labels = ownLabels(recorded.release);
  return {
    metadata: { name, namespace, resourceVersion, labels, annotations },
    spec: recorded.manifests.deployment,
  };
}

/** The service that a Deployment belongs to. */
export function serviceIdOf({ metadata }: { metadata?: { labels?: Record<string, string> } }): string {
  return metadata?.labels?.[label("service")] ?? "";
}

function readUsage(text: string | undefined): UsageChange[] {
  const changes: [number, number, UsageChange["size"]][] = JSON.parse(text ?? "[]");
  return changes.map(([at, replicas, size]) => ({ at, replicas, ...(size && { size }) }));
}
