import { kubernetesFields } from "../../../services/deployer/config.ts";
import { runtimeOptions, withoutLogins } from "../../../services/deployer/engine/kubernetes.ts";
import { connectKube } from "../../../services/deployer/kube/client.ts";
import { Namespace } from "../../../services/deployer/kube/kinds.ts";
import { manyReleases, storeRunning } from "../../../services/deployer/runtime/kubernetes/many/testing.ts";
import { withPlan } from "../../../services/deployer/runtime/kubernetes/namespace/namespace-manifests.ts";
import { createLog } from "../../../services/kit/log.ts";
import { createEntitlements } from "../../../services/kit/plans.ts";
import { readConfig } from "../../../services/kit/process/config.ts";
import { PODS_PER_NODE, runControllers } from "../../support/kube-api/controllers.ts";
import { asServed } from "../../support/kube-api/served.ts";
import { startKubeApi } from "../../support/kube-api/server.ts";
import { manyAddons, storeAddons } from "./addons.ts";
import type { ClusterOrder, ClusterOrders, ClusterStart } from "./cluster.ts";

// A process with a simulated cluster in which a deployer with this environment has run for long; answers its parent.

const api = await startKubeApi({ tls: true });
const { store } = api;
const config = readConfig(process.env, kubernetesFields);
const options = runtimeOptions(config, {
  kube: connectKube(api.config),
  plansOf: async () => new Map(),
  log: createLog("cluster", "warn"),
  registryAuth: withoutLogins,
});
const { volumes } = createEntitlements(config)(undefined);
const controllers = runControllers(api);

function start({ environments, services }: ClusterStart): ClusterOrders["start"]["answer"] {
  const sizes = new Map<string, number>();
  const put: typeof store.put = (scope, object) => {
    const served = controllers.placed(asServed(object));
    sizes.set(scope.plural, JSON.stringify(served).length / 1_000);
    return store.put(scope, served);
  };
  const apply: typeof store.apply = (scope, object) => {
    const { status, metadata } = asServed(object);
    store.apply(scope, object);
    const { managedFields } = metadata;
    const whole = { metadata: { managedFields }, ...(status !== undefined && { status }) };
    const stored = store.merge(scope, object.metadata.name, whole);
    sizes.set(scope.plural, JSON.stringify(stored).length / 1_000);
    return stored;
  };
  store.put(Namespace, { metadata: { name: options.claimsNamespace } });
  const [releases, addons] = [manyReleases(environments, services), manyAddons(environments)];
  controllers.setNodes(Math.ceil((releases.length + addons.length) / PODS_PER_NODE));
  storeRunning({ store: { put, apply } }, releases, withPlan(options, { volumes, openPorts: [] }));
  storeAddons({ put, apply }, addons, options);
  store.compact();
  controllers.start();
  return { url: api.url, kubeconfig: api.config.exportConfig(), kilobytes: Object.fromEntries(sizes) };
}

function state(since = api.calls.length): ClusterOrders["state"]["answer"] {
  const { calls } = api;
  const [count, watches, moving] = [calls.length, api.watches().length, controllers.moving()];
  return { count, calls: calls.slice(since), watches, moving };
}

async function follow(order: ClusterOrder): Promise<object> {
  if (order.do === "start") return start(order);
  if (order.do === "state") return state(order.since);
  const pods = await (order.do === "restart"
    ? controllers.restart(order.pods, order.everyMs)
    : controllers.loseNode());
  return { pods };
}

process.on("message", async (message: ClusterOrder & { order: number }) => {
  process.send?.({ ...(await follow(message)), order: message.order });
});
process.on("disconnect", () => process.exit());
