import { NO_PROC, unmeasuredHere } from "../../runtime/local/measure.ts";
import type { Addon, AddonOutcome, AddonServers } from "../port.ts";
import { createLocalBackups, type LocalBackupDeps } from "./backups.ts";
import { dropDatabase, ensureDatabase, findVersion, measureDatabases } from "./postgres/shared-server.ts";

const ONE_VERSION = "On one machine, all addons of a type have the version of the server that is there.";
const ONE_DISK = "On one machine, addons have no volumes: their data is on the machine's disk.";
const ONE_SERVER = "Standbys need a cluster: on one machine, a redis addon has one server.";
const NO_POOLER = "Poolers need a cluster: install Berth on Kubernetes to have them.";
const SHARED =
  "The PostgreSQL addons of one machine share a server, so this cannot be measured of one of them.";
const SHARED_LOG =
  "The PostgreSQL addons of one machine share a server, whose log has statements of other accounts too, so it is not shown.";
const UNMEASURED = { ...unmeasuredHere(), capacity: ONE_DISK };

/**
 * Addons on one machine: a postgres addon is a role and a database in the server of `adminUrl`, a redis addon a server
 * of its own.
 */
export function createLocalAddons(deps: LocalBackupDeps): AddonServers {
  const { adminUrl, redis, redisProgram } = deps;
  const { hostname, port } = new URL(adminUrl);
  let changed = (_serviceId: string) => {};
  /** Of the shared server, which does not change while this process runs. */
  let version: string | undefined;
  const postgres = { host: hostname, port: port === "" ? 5432 : Number(port) };

  async function ensureRedis(addon: Addon, password: string): Promise<AddonOutcome> {
    const { serviceId, size, port } = addon;
    const found = await redisProgram.find(() => changed(serviceId));
    if ("program" in found)
      return { state: "ready", port: await redis.ensure(serviceId, found.program, { password, size, port }) };
    if ("fetching" in found) return { state: "waiting", message: found.fetching };
    // One that has run before waits until the program is back.
    if (port !== undefined) throw new Error(found.missing);
    return { state: "failed", message: found.missing };
  }

  return {
    postgresEngine: async () => undefined,
    choiceOf: () => ({
      ...{ versions: [], versionsReason: ONE_VERSION },
      ...{ storageReason: ONE_DISK, storageGrowsReason: ONE_DISK, poolerReason: NO_POOLER },
      standbyReason: ONE_SERVER,
    }),
    async describe({ type }) {
      if (type !== "postgres") return {};
      version ??= await findVersion(adminUrl);
      return { version };
    },
    cannotGrow: async () => ONE_DISK,
    ownServer: ["redis"],
    collectorUrl: adminUrl,
    backups: createLocalBackups(deps),
    async ensure(addon, password) {
      if (addon.type === "redis") return ensureRedis(addon, password);
      await ensureDatabase(adminUrl, addon.serviceId, password);
      return { state: "ready" };
    },
    address: ({ type, port }) => (type === "redis" ? { host: "127.0.0.1", port: port ?? 0 } : postgres),
    remove: ({ serviceId, type }) =>
      type === "redis" ? redis.remove(serviceId) : dropDatabase(adminUrl, serviceId),
    async status({ serviceId }) {
      const server = redis.status(serviceId);
      return server && { ...server, type: "redis" };
    },
    async measure() {
      return [...(await redis.measure()), ...(await measureDatabases(adminUrl))];
    },
    unlogged: (type) => (type === "postgres" ? SHARED_LOG : undefined),
    logs: redis.logs,
    followLogs: redis.followLogs,
    unmeasured: (type) =>
      type === "postgres"
        ? { ...UNMEASURED, cpu: SHARED, memory: SHARED, server: SHARED }
        : { ...UNMEASURED, ...(process.platform !== "linux" && { connections: NO_PROC }) },
    list: async () => redis.list().map((server) => ({ ...server, type: "redis" as const })),
    watch(listener) {
      changed = listener;
      redis.watch(listener);
    },
  };
}
