import { readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { newId } from "../../kit/ids.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { actAs, startTestPlatform } from "../testing/testing.ts";
import { deployerProcess } from "../testing/testing-process.ts";
import { sendCommands } from "./local/redis-client.ts";

type Keys = { ready: boolean; revision: bigint; HOST: string; PORT: string; PASSWORD: string; URL: string };

export type AddonDeployer = Awaited<ReturnType<typeof startAddonDeployer>>;

/** Starts a platform for a deployer that runs as a process of its own, and what tests do with addons there. */
export async function startAddonDeployer() {
  const platform = await startTestPlatform();
  const deployer = deployerProcess(platform);

  /** Returns what an addon publishes, as the variables service reads it. */
  async function keysOf(serviceId: string): Promise<Keys> {
    const variables = clientAs(InternalService, platform.port, { kind: "service", id: "variables" });
    const { ready, keys, revision } = await variables.getAddonKeys({ serviceId });
    return { ready, revision, ...Object.fromEntries(keys.map(({ key, value }) => [key, value])) } as Keys;
  }

  return {
    ...deployer,
    platform,
    keysOf,
    /** Creates an addon in an account of its own. */
    async addon(type: string) {
      const acting = actAs(platform.port, newId("acc"));
      const environment = await acting.environment();
      const { id } = await acting.catalog.createService({ ...environment, name: "store", type });
      return { ...acting, environment, id, path: environment.at("store") };
    },
    /** Returns the process of a redis server. */
    async recordOf(serviceId: string): Promise<{ pid: number; started: string }> {
      return JSON.parse(await readFile(join(platform.dataDir, "redis", serviceId, "state.json"), "utf8"));
    },
    /** Resolves with the keys that a rotation publishes. */
    rotated: (id: string, before: Keys) =>
      eventually("a new password is published", async () => {
        const now = await keysOf(id);
        return now.revision > before.revision && now.PASSWORD !== before.PASSWORD && now;
      }),
    async stop(): Promise<void> {
      await deployer.end("SIGKILL");
      await platform.stop();
    },
  };
}

/** Sends commands to a redis addon with its published password. */
export function command(keys: Pick<Keys, "PORT" | "PASSWORD">, ...parts: string[][]): Promise<void> {
  return sendCommands(Number(keys.PORT), [["AUTH", keys.PASSWORD], ...parts]);
}

/** Returns whether a redis addon accepts its published password. */
export function works(keys: Pick<Keys, "PORT" | "PASSWORD">): Promise<boolean> {
  return command(keys, ["PING"]).then(
    () => true,
    () => false,
  );
}

/** Runs a statement in a postgres addon. */
export async function query(url: string, text: string) {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    return await client.query(text);
  } finally {
    await client.end();
  }
}
