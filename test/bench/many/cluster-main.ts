import { kubernetesFields } from "../../../services/deployer/config.ts";
import { runtimeOptions } from "../../../services/deployer/engine/kubernetes.ts";
import { connectKube } from "../../../services/deployer/kube/client.ts";
import { Namespace } from "../../../services/deployer/kube/kinds.ts";
import { manyReleases, storeRunning } from "../../../services/deployer/runtime/kubernetes/many/testing.ts";
import { createLog } from "../../../services/kit/log.ts";
import { readConfig } from "../../../services/kit/process/config.ts";
import { startKubeApi } from "../../support/kube-api/server.ts";
import type { ClusterAnswer, ClusterStart } from "./cluster.ts";
import { runPods } from "./pods.ts";
import { asServed } from "./served.ts";

// A process with a simulated cluster in which a deployer with this environment has run for long; answers its parent.

const api = await startKubeApi();
const { store } = api;
const options = runtimeOptions(readConfig(process.env, kubernetesFields), {
  kube: connectKube(api.config),
  plansOf: async () => new Map(),
  log: createLog("cluster", "warn"),
});

process.on("message", (asked: ClusterStart | "state") => {
  if (asked !== "state") {
    const releases = manyReleases(asked.environments, asked.services);
    store.put(Namespace, { metadata: { name: options.claimsNamespace } });
    const put: typeof store.put = (scope, object) => store.put(scope, asServed(object));
    storeRunning({ store: { put } }, releases, options);
    store.compact();
    runPods(store);
  }
  process.send?.({ url: api.url, calls: api.calls, watches: api.watches().length } satisfies ClusterAnswer);
});
process.on("disconnect", () => process.exit());
