import { PostgresCluster } from "../../kube/kinds.ts";
import { createLogs } from "../../runtime/kubernetes/logs/logs.ts";
import { unmeasuredOn } from "../../runtime/kubernetes/metrics/measure.ts";
import { createPrometheus } from "../../runtime/kubernetes/metrics/prometheus.ts";
import type { KubernetesRuntimeOptions } from "../../runtime/kubernetes/options.ts";
import type { AddonBackups, AddonLogQuery, AddonReaders, AddonRef, AddonServers } from "../port.ts";
import type { PostgresEngine } from "./config.ts";
import { addonSource } from "./log-source.ts";
import type { KubernetesPoolers } from "./pooler/adapter.ts";

type Stoppable = { stop: () => Promise<void> };

type EnginesOptions = Pick<
  KubernetesRuntimeOptions,
  "kube" | "log" | "namespacePrefix" | "loki" | "prometheusUrl"
> & {
  engine: PostgresEngine;
  sets: Omit<AddonServers, keyof AddonReaders> & Stoppable;
  /** Absent where new addons are StatefulSets: the deployer has no rights to Clusters then. */
  cnpg?: Omit<AddonServers, keyof AddonReaders | "ownServer" | "postgresEngine" | "choiceOf"> & Stoppable;
  poolers: KubernetesPoolers;
};

const NO_OPERATOR =
  "The cluster has no operator for PostgreSQL: install CloudNativePG, or set apps.addons.postgresEngine to statefulset.";
const NO_PROMETHEUS =
  "This installation names no Prometheus, by which Berth learns how full volumes are (apps.metrics.prometheusUrl).";
const ONLY_POSTGRES = "Only postgres addons have poolers.";
const TURNED_OFF =
  "This addon runs on CloudNativePG, which apps.addons.postgresEngine turns off: set it to cnpg, or to auto.";

/** Addons on a cluster with two engines for PostgreSQL. An addon keeps the one that it was made with. */
export function createAddonEngines(options: EnginesOptions): AddonServers & Stoppable {
  const { kube, engine, sets, cnpg, poolers, namespacePrefix, prometheusUrl: url } = options;
  const logs = createLogs(options, (query: AddonLogQuery) => addonSource(namespacePrefix, query));
  const isServed = () => kube.serves(PostgresCluster);

  /** Returns the servers among which an addon is. Throws where they are turned off: its data is not forgotten. */
  function serversOf({ engine }: Pick<AddonRef, "engine">) {
    if (engine !== "cnpg") return sets;
    if (!cnpg) throw new Error(TURNED_OFF);
    return cnpg;
  }

  const backups: AddonBackups = {
    ...sets.backups,
    noArchive: (addon) =>
      addon.engine === "cnpg" && !cnpg ? TURNED_OFF : serversOf(addon).backups.noArchive(addon),
    pointInTime: async (addon) => serversOf(addon).backups.pointInTime(addon),
    make: async (addon, ...more) => serversOf(addon).backups.make(addon, ...more),
    restore: async (addon, ...more) => serversOf(addon).backups.restore(addon, ...more),
    prove: async (addon, ...more) => serversOf(addon).backups.prove(addon, ...more),
  };

  return {
    ownServer: sets.ownServer,
    backups,
    poolers,
    choiceOf: (type) => ({
      ...sets.choiceOf(type),
      poolerReason: type === "postgres" ? poolers.reason : ONLY_POSTGRES,
      ...(url === undefined && { storageGrowsReason: NO_PROMETHEUS }),
    }),
    describe: async (addon) => serversOf(addon).describe(addon),
    cannotGrow: async (addon, storageGib) => serversOf(addon).cannotGrow(addon, storageGib),
    async postgresEngine() {
      if (engine === "auto") return (await isServed()) ? "cnpg" : undefined;
      return engine === "cnpg" ? "cnpg" : undefined;
    },
    async ensure(addon, password) {
      if (addon.engine !== "cnpg") return sets.ensure(addon, password);
      if (!cnpg) return { state: "failed", message: TURNED_OFF };
      if (!(await isServed())) return { state: "failed", message: NO_OPERATOR };
      return cnpg.ensure(addon, password);
    },
    address: (addon) => sets.address(addon),
    async remove(addon) {
      const servers = serversOf(addon);
      const { type, environmentId } = addon;
      // Where the environment is not known, Kubernetes removes its pooler with its server.
      if (type === "postgres" && environmentId !== undefined)
        await poolers.remove({ ...addon, environmentId });
      await servers.remove(addon);
    },
    async status(addon) {
      if (addon.engine !== "cnpg") return sets.status(addon);
      if (cnpg) return cnpg.status(addon);
      const problem = { state: "degraded" as const, message: TURNED_OFF };
      return { ...addon, running: false, size: "nano", usage: [], problem };
    },
    list: async () => (await Promise.all([sets.list(), cnpg?.list() ?? []])).flat(),
    measure: async () => (await Promise.all([sets.measure(), cnpg?.measure() ?? []])).flat(),
    unlogged: () => undefined,
    logs: logs.page,
    followLogs: logs.follow,
    unmeasured: () => unmeasuredOn(url !== undefined),
    ...(url !== undefined && createPrometheus({ url, namespacePrefix })),
    watch(listener) {
      sets.watch(listener);
      cnpg?.watch(listener);
    },
    stop: async () => void (await Promise.all([sets.stop(), cnpg?.stop()])),
  };
}
