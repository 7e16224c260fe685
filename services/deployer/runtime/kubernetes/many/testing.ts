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

export const HEALTHY = 1;
/** How many environments a project has, and an account one project. */
const PER_PROJECT = 100;

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

/** Returns where the environment of this number is. */
export function placeOf(environment: number) {
  const project = Math.floor(environment / PER_PROJECT) + 1;
  return {
    accountId: `acc_${project}`,
    projectId: `prj_${project}`,
    environmentId: `env_${environment}`,
  };
}

/** Returns the releases of so many environments with so many services each. */
export function manyReleases(environments: number, services: number): AppRelease[] {
  return Array.from({ length: environments * services }, (_, n) => {
    const [environment, service] = [Math.floor(n / services), n % services];
    return {
      ...one,
      ...placeOf(environment),
      serviceId: `svc_${environment}_${service}`,
      names: { ...one.names, environment: `e${environment}`, service: `web${service}` },
    };
  });
}

const hostOf = ({ names }: AppRelease) =>
  `${names.service}-${names.environment}-${names.project}.${made.apps.domain}`;

/** Stores what the cluster has of releases that run for long: their namespaces, all their objects, a ready pod each. */
export function storeRunning(
  { store }: { store: Pick<KubeApi["store"], "put" | "apply"> },
  releases: AppRelease[],
  options: KubernetesRuntimeOptions,
): void {
  const put = ({ apiVersion, kind, plural }: Kind<object>, object: object, namespace?: string) => {
    // As it is sent: dates are text.
    const { metadata, ...rest } = JSON.parse(JSON.stringify(object));
    const scope = { apiVersion, plural, ...(namespace && { namespace }) };
    // What the deployer leaves out when it applies again is removed, as it was applied before.
    const write = kind === "Pod" ? store.put : store.apply;
    write(scope, { apiVersion, kind, metadata, ...rest });
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
  const { version, revision, artifact } = one;
  const run = (text: string, ...values: unknown[]) => pool.query(text, values);
  const owners = [
    rows.map((row) => row.accountId),
    rows.map((row) => row.projectId),
    rows.map((row) => row.environmentId),
    rows.map((row) => row.names.environment),
  ];
  await run(
    `insert into projects (id, account_id, name)
     select distinct p, a, 'shop' from unnest($1::text[], $2::text[]) as r (a, p)`,
    ...owners.slice(0, 2),
  );
  await run(
    `insert into environments (id, account_id, project_id, name)
     select distinct e, a, p, n from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as r (a, p, e, n)`,
    ...owners,
  );
  await run(
    `insert into services (id, account_id, project_id, environment_id, name, type, source, config, staged, next_version,
       live_version, variables_revision, applied_revision, runtime_state, serving_version, available, url, usage_at)
     select r.id, e.account_id, e.project_id, e.id, r.name, 'web', '{}', $1, false, $2 + 1, $2, $3, $3, 'running', $2, 1, r.url, $4
     from unnest($5::text[], $6::text[], $7::text[], $8::text[]) as r (id, environment, name, url)
     join environments e on e.id = r.environment`,
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
