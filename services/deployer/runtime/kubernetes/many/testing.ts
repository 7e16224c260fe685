import type { KubeApi } from "../../../../../test/support/kube-api/server.ts";
import type { Pool } from "../../../../kit/postgres/db.ts";
import type { Kind } from "../../../kube/client.ts";
import { Deployment, Ingress, Namespace, Pod, Secret, Service } from "../../../kube/kinds.ts";
import { namespaceOf } from "../../../kube/names.ts";
import { mergeConfig } from "../../../projects/service-config.ts";
import { withMark } from "../namespace/namespace-manifests.ts";
import { at, options as made, release as one, pod } from "../observe/testing.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { type AppRelease, manifestsOf, objectName, ownLabels, secretName } from "../release/manifests.ts";
import { withAnnotations } from "../release/release-annotations.ts";

const HEALTHY = 1;

/** Returns how a test runs releases on a simulated API server. */
export function manyOptions(
  given: Pick<KubernetesRuntimeOptions, "kube" | "log"> & Partial<KubernetesRuntimeOptions>,
): KubernetesRuntimeOptions {
  return {
    namespacePrefix: "many",
    watch: "cluster",
    claimsNamespace: "many-home",
    apps: made.apps,
    ingress: made.ingress,
    network: {
      ingressNamespaceLabels: [],
      ingressFromCidrs: [],
      egressExceptCidrs: [],
      portRanges: true,
      metricsPeers: [],
      closedPorts: [],
      dnsPorts: [53],
      dnsPeers: [{ podSelector: { matchLabels: { "k8s-app": "kube-dns" } } }],
    },
    quota: { pods: "50" },
    plansOf: async () => new Map(),
    compareMs: 30_000,
    ...given,
  };
}

/** Returns the releases of so many environments with so many services each. */
export function manyReleases(environments: number, services: number): AppRelease[] {
  return Array.from({ length: environments * services }, (_, n) => {
    const [environment, service] = [Math.floor(n / services), n % services];
    return {
      ...one,
      serviceId: `svc_${environment}_${service}`,
      environmentId: `env_${environment}`,
      names: { ...one.names, environment: `e${environment}`, service: `web${service}` },
    };
  });
}

const hostOf = ({ names }: AppRelease) =>
  `${names.service}-${names.environment}-${names.project}.${made.apps.domain}`;

/** Stores what the cluster has of releases that run for long: their namespaces, all their objects, a ready pod each. */
export function storeRunning(
  { store }: { store: Pick<KubeApi["store"], "put"> },
  releases: AppRelease[],
  options: KubernetesRuntimeOptions,
): void {
  const put = ({ apiVersion, kind, plural }: Kind<object>, object: object, namespace?: string) => {
    // As it is sent: dates are text.
    const { metadata, ...rest } = JSON.parse(JSON.stringify(object));
    store.put(
      { apiVersion, plural, ...(namespace && { namespace }) },
      { apiVersion, kind, metadata, ...rest },
    );
  };
  for (const release of releases) {
    const namespace = namespaceOf(options.namespacePrefix, release.environmentId);
    put(Namespace, withMark(release, options));
    const manifests = manifestsOf(release, { ...made, host: hostOf(release) });
    const usage = [{ at: at(HEALTHY), replicas: 1, size: release.size }];
    const recorded = { release, manifests, appliedAt: at(0), healthyAt: at(HEALTHY), usage };
    const metadata = { name: objectName(release), namespace, labels: ownLabels(release) };
    put(Deployment, withAnnotations({ metadata }, recorded), namespace);
    put(Service, { metadata, spec: manifests.service }, namespace);
    put(Ingress, { metadata: { ...metadata, annotations: {} }, spec: manifests.ingress?.spec }, namespace);
    put(Secret, { metadata: { ...metadata, name: secretName(release) } }, namespace);
    const replica = pod(release.serviceId, { of: release, readySince: HEALTHY });
    const { spec } = manifests.deployment.template;
    put(Pod, { ...replica, metadata: { ...replica.metadata, namespace }, spec }, namespace);
  }
}

/** Inserts what the database has of the same releases: all is recorded, and nothing is due. */
export async function insertRunning(pool: Pool, releases: AppRelease[]): Promise<void> {
  const config = { ...mergeConfig("web", undefined, undefined), size: one.size };
  const rows = releases.map((release) => ({
    ...release,
    name: release.names.service,
    url: `https://${hostOf(release)}`,
  }));
  const { accountId, projectId, version, revision, artifact } = one;
  const run = (text: string, ...values: unknown[]) => pool.query(text, values);
  await run("insert into projects (id, account_id, name) values ($1, $2, 'shop')", projectId, accountId);
  await run(
    `insert into environments (id, account_id, project_id, name)
     select distinct e, $2, $3, e from unnest($1::text[]) as e`,
    rows.map((row) => row.environmentId),
    accountId,
    projectId,
  );
  await run(
    `insert into services (id, account_id, project_id, environment_id, name, type, source, config, staged, next_version,
       live_version, applied_revision, runtime_state, serving_version, url, usage_at)
     select r.id, $1, $2, r.environment, r.name, 'web', '{}', $3, false, $4 + 1, $4, $5, 'running', $4, r.url, $6
     from unnest($7::text[], $8::text[], $9::text[], $10::text[]) as r (id, environment, name, url)`,
    accountId,
    projectId,
    config,
    version,
    revision,
    new Date(at(HEALTHY)),
    rows.map((row) => row.serviceId),
    rows.map((row) => row.environmentId),
    rows.map((row) => row.name),
    rows.map((row) => row.url),
  );
  await run("insert into work (service_id) select id from services");
  await run(
    `insert into deployments (id, service_id, version, status, config, source, artifact, applied_at, healthy_at, finished_at)
     select 'dep_' || id, id, $1, 'applied', config, source, $2, now(), now(), now() from services`,
    version,
    artifact,
  );
  await run(
    `insert into usage_intervals (id, service_id, account_id, project_id, environment_id, type, size, replicas,
       started_at, seen_at, heartbeat_at)
     select 'uin_' || id, id, account_id, project_id, environment_id, type, $1, 1, $2, $2, now() from services`,
    one.size,
    new Date(at(HEALTHY)),
  );
}
