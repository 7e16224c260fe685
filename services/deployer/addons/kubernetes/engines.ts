import type { Kube } from "../../kube/client.ts";
import { PostgresCluster } from "../../kube/kinds.ts";
import type { AddonBackups, AddonRef, AddonServers } from "../port.ts";
import type { PostgresEngine } from "./config.ts";

type Stoppable = { stop: () => Promise<void> };

type EnginesOptions = {
  kube: Pick<Kube, "serves">;
  engine: PostgresEngine;
  sets: AddonServers & Stoppable;
  /** Absent where new addons are StatefulSets: the deployer has no rights to Clusters then. */
  cnpg?: Omit<AddonServers, "ownServer" | "postgresEngine" | "choiceOf"> & Stoppable;
};

const NO_OPERATOR =
  "The cluster has no operator for PostgreSQL: install CloudNativePG, or set apps.addons.postgresEngine to statefulset.";
const TURNED_OFF =
  "This addon runs on CloudNativePG, which apps.addons.postgresEngine turns off: set it to cnpg, or to auto.";

/** Addons on a cluster with two engines for PostgreSQL. An addon keeps the one that it was made with. */
export function createAddonEngines({ kube, engine, sets, cnpg }: EnginesOptions): AddonServers & Stoppable {
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
    choiceOf: sets.choiceOf,
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
    remove: async (addon) => serversOf(addon).remove(addon),
    async status(addon) {
      if (addon.engine !== "cnpg") return sets.status(addon);
      if (cnpg) return cnpg.status(addon);
      const problem = { state: "degraded" as const, message: TURNED_OFF };
      return { ...addon, running: false, size: "nano", usage: [], problem };
    },
    list: async () => (await Promise.all([sets.list(), cnpg?.list() ?? []])).flat(),
    watch(listener) {
      sets.watch(listener);
      cnpg?.watch(listener);
    },
    stop: async () => void (await Promise.all([sets.stop(), cnpg?.stop()])),
  };
}
