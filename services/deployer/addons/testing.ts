import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { inject, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { newId } from "../../kit/ids.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { actAs, startTestPlatform } from "../testing/testing.ts";
import { deployerProcess } from "../testing/testing-process.ts";
import type { Addon, AddonServers, AddonStatus } from "./port.ts";
import { sendCommands } from "./redis-client.ts";

/** Creates an administrator who is not a superuser, as operators configure one. Returns its URL. */
export async function addonAdmin(): Promise<string> {
  const url = new URL(inject("postgresAdminUrl"));
  const admin = new pg.Client({ connectionString: url.href });
  await admin.connect();
  [url.username, url.password] = [`addons_${randomBytes(4).toString("hex")}`, "a-password"];
  await admin.query(`create role ${url.username} login createdb createrole password '${url.password}'`);
  await admin.end();
  return url.href;
}

/**
 * Returns servers of addons that have versions and volumes of their own, over those of one machine; `made` gets what they were
 * last asked for, by service.
 */
export function withVolumes(
  servers: AddonServers,
  made: Map<string, Addon>,
  more: Partial<AddonServers>,
): AddonServers {
  const statusOf = (serviceId: string): AddonStatus | undefined => {
    const addon = made.get(serviceId);
    return addon && { ...addon, running: true, usage: [] };
  };
  return {
    ...servers,
    ownServer: ["postgres", "redis"],
    async describe({ serviceId }) {
      const { version = "18", storageGib = 10 } = made.get(serviceId) ?? {};
      return { version: `${version}.1`, storageBytes: storageGib * 1024 ** 3 };
    },
    status: async ({ serviceId }) => statusOf(serviceId),
    list: async () => [...made.keys()].flatMap((serviceId) => statusOf(serviceId) ?? []),
    async ensure(addon, password) {
      const outcome = await servers.ensure(addon, password);
      if (outcome.state === "ready") made.set(addon.serviceId, addon);
      return outcome;
    },
    ...more,
  };
}

/** A redis server of this machine, if there is one. */
export const program = inject("redisProgram");
export const withRedis = test.skipIf(!program);
/** Tests of backups of postgres addons, where this machine can make them. */
export const withDumps = test.skipIf(!inject("hasDumps"));

/** What an addon publishes. */
export type PublishedKeys = {
  ready: boolean;
  revision: bigint;
  HOST: string;
  PORT: string;
  PASSWORD: string;
  URL: string;
};

export type AddonPlatform = Awaited<ReturnType<typeof startAddonPlatform>>;

/** A platform whose deployer is a process of its own, and what tests of addons ask of it. */
export async function startAddonPlatform() {
  const platform = await startTestPlatform();
  const { run, end, output } = deployerProcess(platform);

  /** What an addon publishes, as the variables service asks for it. */
  async function keysOf(serviceId: string): Promise<PublishedKeys> {
    const variables = clientAs(InternalService, platform.port, { kind: "service", id: "variables" });
    const { ready, keys, revision } = await variables.getAddonKeys({ serviceId });
    const published = Object.fromEntries(keys.map(({ key, value }) => [key, value]));
    return { ready, revision, ...published } as PublishedKeys;
  }

  return {
    ...{ port: platform.port, dataDir: platform.dataDir, run, end, output, keysOf },
    async addon(type: string) {
      const acting = actAs(platform.port, newId("acc"));
      const environment = await acting.environment();
      const { id } = await acting.catalog.createService({ ...environment, name: "store", type });
      return { ...acting, environment, id, path: environment.at("store") };
    },
    async recordOf(serviceId: string): Promise<{ pid: number; started: string }> {
      return JSON.parse(await readFile(join(platform.dataDir, "redis", serviceId, "state.json"), "utf8"));
    },
    /** Waits until another password is published than `before`. */
    rotated: (id: string, before: PublishedKeys) =>
      eventually("a new password is published", async () => {
        const now = await keysOf(id);
        return now.revision > before.revision && now.PASSWORD !== before.PASSWORD && now;
      }),
    /** With the deployer, which ends the servers of its addons. */
    async stop(): Promise<void> {
      await end("SIGTERM");
      await platform.stop();
    },
  };
}

// A busy machine may take longer to answer than the deployer waits.
const PATIENCE_MS = 60_000;

/** Sends commands to a redis addon, after its password. */
export const command = (keys: Pick<PublishedKeys, "PORT" | "PASSWORD">, ...parts: string[][]) =>
  sendCommands(Number(keys.PORT), [["AUTH", keys.PASSWORD], ...parts], PATIENCE_MS);

/** Whether a redis addon answers to its password. */
export const works = (keys: PublishedKeys) =>
  command(keys, ["PING"]).then(
    () => true,
    () => false,
  );
