import { afterEach, expect, test } from "vitest";
import { startKubeApi } from "../../../../test/support/kube-api/server.ts";
import { connectKube } from "../../kube/client.ts";
import { Namespace, StatefulSet } from "../../kube/kinds.ts";
import { labelsOf, nameOf, namespaceOf } from "../../kube/names.ts";
import { createKubernetesAddons } from "./adapter.ts";

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

test("of many namespaces whose addons are due to be looked at, some are each time, and all in turn", async () => {
  const api = await startKubeApi();
  stops.push(api.stop);
  const images = { postgres: "postgres:18.1", redis: "redis:8.2.4" };
  const servers = createKubernetesAddons({
    ...{
      kube: connectKube(api.config),
      namespacePrefix: "berth",
      watch: "cluster",
      user: 999,
      dns: {},
      images,
    },
    log: { info() {}, warn: console.warn, error: console.error },
    ensureNamespace: async () => {},
    hasNamespace: () => true,
    storage: { size: "5Gi" },
    patchImages: { postgres: [], redis: [] },
    // All are due at any time.
    checkMs: -1,
  });
  stops.push(servers.stop);
  const environments = Array.from({ length: 120 }, (_, n) => `env_${n}`);
  for (const environmentId of environments) {
    const [namespace, serviceId] = [namespaceOf("berth", environmentId), environmentId.replace("env", "svc")];
    api.store.put(Namespace, { metadata: { name: namespace } });
    const labels = {
      ...labelsOf({ environmentId, serviceId, kind: "addon" }),
      "app.kubernetes.io/name": "redis",
    };
    const metadata = { name: nameOf(serviceId), namespace, labels };
    api.store.put({ ...StatefulSet, namespace }, { metadata, spec: { replicas: 1 } });
    await servers.status({ type: "redis", serviceId, environmentId });
  }
  const looked = new Set<string>();
  for (const most of [50, 100, 120]) {
    const from = api.calls.length;
    await servers.list();
    const calls = api.calls.slice(from).filter(({ verb }) => verb === "list");
    for (const { namespace = "" } of calls) looked.add(namespace);
    expect(looked.size).toBe(most);
  }
});
