import { join } from "node:path";
import { apiConfig } from "../../../../../test/support/kube-api/server.ts";
import type { Logger } from "../../../../kit/log.ts";
import { url } from "../../../../kit/process/config.ts";
import { main } from "../../../../kit/process/process.ts";
import { createLocalBuilder } from "../../../builder/local/adapter.ts";
import { fields, type LocalConfig } from "../../../config.ts";
import { createClusterView } from "../../../engine/cluster-view.ts";
import { startElection } from "../../../engine/election.ts";
import type { Engine } from "../../../engine/local.ts";
import { connectKube } from "../../../kube/client.ts";
import { reachApi } from "../../../kube/stream.ts";
import { start } from "../../../main.ts";
import { createDiskStore } from "../../../store/disk/adapter.ts";
import { defaultUploadLimits } from "../../../store/disk/upload-limits.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { manyOptions } from "./testing.ts";

/** Starts a deployer as it is on a cluster, several of which share a database; what it builds is on this machine. */
export function startManyDeployer(config: LocalConfig, log: Logger, options: KubernetesRuntimeOptions) {
  return start(config, log, async (_config, _secrets, _log, plansOf): Promise<Engine> => {
    const folder = (name: string) => join(config.dataDir, name);
    const [baseUrl, limits] = [config.publicOrigin, defaultUploadLimits];
    const store = createDiskStore({ folder: folder("store"), baseUrl, secrets: ["secret"], limits, log });
    const addons = {
      images: { postgres: "example.test/postgres", redis: "example.test/redis" },
      patchImages: { postgres: [], redis: [] },
      storage: { size: "1Gi" },
      user: 999,
      postgres: { engine: "statefulset" as const, operatorNamespace: "cnpg-system", egress: [] },
      dns: {},
      pooler: {},
    };
    const begin = () => createClusterView({ ...options, plansOf }, addons);
    const { runtime, addonServers } = begin();
    const reach = (signal: AbortSignal) => reachApi(options.kube, signal);
    const { lead, stop } = await startElection({
      url: config.databaseUrl,
      log,
      begin,
      reach,
      unreachedMs: 6_000,
    });
    return {
      ...{ runtime, addonServers, store, lead, stop },
      builder: createLocalBuilder({ folder: folder("artifacts"), store, environment: {} }),
      isBuiltImage: () => false,
      minReadySeconds: 1,
      other: () => false,
    };
  });
}

if (import.meta.main)
  await main("deployer", { ...fields, kubeApi: url("KUBE_API", ["http"]) }, ({ kubeApi, ...config }, log) =>
    startManyDeployer(config, log, manyOptions({ kube: connectKube(apiConfig(kubeApi)), log })),
  );
