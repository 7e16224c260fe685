import {
  addonObjects,
  POD_NAME,
  podName,
} from "../../../services/deployer/addons/kubernetes/server/manifests.ts";
import type { Addon } from "../../../services/deployer/addons/port.ts";
import type { Kind } from "../../../services/deployer/kube/client.ts";
import * as kinds from "../../../services/deployer/kube/kinds.ts";
import { HEALTHY, placeOf } from "../../../services/deployer/runtime/kubernetes/many/testing.ts";
import { at, date } from "../../../services/deployer/runtime/kubernetes/observe/testing.ts";
import { createSecrets } from "../../../services/deployer/secrets.ts";
import type { Pool } from "../../../services/kit/postgres/db.ts";
import type { Given, Store } from "../../support/kube-api/store.ts";

const PASSWORD = "secret";
const IMAGE = "redis:8";

/** Returns the addons of so many environments: a redis each. */
export function manyAddons(environments: number): Addon[] {
  return Array.from({ length: environments }, (_, environment) => ({
    ...placeOf(environment),
    serviceId: `svc_${environment}_cache`,
    type: "redis",
    name: "cache",
    size: "nano",
    generation: 2,
  }));
}

/** Stores what the cluster has of addons that run for long. */
export function storeAddons(
  { put, apply }: Pick<Store, "put" | "apply">,
  addons: Addon[],
  { namespacePrefix }: { namespacePrefix: string },
): void {
  const store = ({ apiVersion, kind, plural }: Kind<object>, object: object) => {
    const { metadata, ...rest } = JSON.parse(JSON.stringify(object)) as Given;
    const { namespace } = metadata;
    const write = kind === "Pod" ? put : apply;
    write({ apiVersion, plural, namespace }, { apiVersion, kind, metadata, ...rest });
  };
  for (const addon of addons) {
    const fixed = { image: IMAGE, storage: "1Gi" };
    const options = { namespacePrefix, user: 999, dns: {} };
    const { secret, service, policy, set } = addonObjects(addon, fixed, PASSWORD, options);
    store(kinds.Secret, secret);
    store(kinds.Service, service);
    store(kinds.NetworkPolicy, policy);
    store(kinds.StatefulSet, set);
    const name = podName(addon.serviceId, 0);
    const { metadata, spec } = set.spec!.template;
    const ready = { type: "Ready", status: "True", lastTransitionTime: date(HEALTHY) };
    const running = {
      name: "redis",
      ready: true,
      restartCount: 0,
      state: { running: { startedAt: date(0) } },
    };
    store(kinds.Pod, {
      metadata: {
        ...{ ...metadata, name, namespace: set.metadata.namespace, creationTimestamp: date(0) },
        labels: { ...metadata?.labels, [POD_NAME]: name },
      },
      spec,
      status: { phase: "Running", conditions: [ready], containerStatuses: [running] },
    });
  }
}

/** Inserts what the database has of them, whose passwords this key seals. */
export async function insertAddons(pool: Pool, addons: Addon[], secretKey: string): Promise<void> {
  const { seal } = createSecrets([Buffer.from(secretKey, "base64")]);
  const values = [
    addons.map(({ serviceId }) => serviceId),
    addons.map(({ environmentId }) => environmentId),
    addons.map(({ serviceId }) => seal(PASSWORD, serviceId)),
    // The moment at which a server becomes ready counts to the millisecond after it, by the number of servers.
    new Date(at(HEALTHY) + 1),
  ];
  await pool.query(
    `insert into services (id, account_id, project_id, environment_id, name, type, source, config, staged, addon_state,
       addon_secret, addon_revision, runtime_state, usage_at)
     select r.id, e.account_id, e.project_id, e.id, 'cache', 'redis', '{}', '{"size": "nano"}', false, 'ready',
       r.secret, 1, 'running', $4
     from unnest($1::text[], $2::text[], $3::bytea[]) as r (id, environment, secret) join environments e on e.id = r.environment`,
    values,
  );
  await pool.query("insert into work (service_id) select id from services where addon_state is not null");
  await pool.query(
    `insert into usage_intervals (id, service_id, account_id, project_id, environment_id, type, size, replicas,
       started_at, seen_at, heartbeat_at)
     select 'uin_' || id, id, account_id, project_id, environment_id, type, 'nano', 1, usage_at, usage_at, now()
     from services where addon_state is not null`,
  );
}
