import type { RedisServers } from "../redis-servers.ts";
import type { Addon, AddonOutcome, AddonServers } from "./port.ts";
import { dropDatabase, ensureDatabase } from "./shared-postgres.ts";

const NO_REDIS =
  "This installation has no redis server: neither redis-server nor valkey-server is on the PATH.";

/**
 * Addons on one machine. Of type postgres: a role and a database of their own in the server of `adminUrl`. Of
 * type redis: a server of their own.
 */
export function createLocalAddons({
  adminUrl,
  redis,
}: {
  adminUrl: string;
  redis: RedisServers;
}): AddonServers {
  const { hostname, port } = new URL(adminUrl);
  const postgres = { host: hostname, port: port === "" ? 5432 : Number(port) };

  async function ensureRedis(addon: Addon, password: string): Promise<AddonOutcome> {
    const { serviceId, size, port } = addon;
    const program = redis.program();
    if (program)
      return { state: "ready", port: await redis.ensure(serviceId, program, { password, size, port }) };
    // One that has run before waits for the program to come back.
    if (port !== undefined) throw new Error(NO_REDIS);
    return { state: "failed", message: NO_REDIS };
  }

  return {
    ownServer: ["redis"],
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
    list: async () => redis.list().map((server) => ({ ...server, type: "redis" as const })),
    watch: redis.watch,
  };
}
