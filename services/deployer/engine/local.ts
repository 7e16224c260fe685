import { mkdir } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join, resolve } from "node:path";
import type { Logger } from "../../kit/log.ts";
import { openControlGroups } from "../../kit/process/control-groups.ts";
import type { Running } from "../../kit/process/process.ts";
import { noWalls, raiseWalls } from "../../kit/process/walls.ts";
import { createLocalAddons } from "../addons/local/adapter.ts";
import { createPostgresPrograms } from "../addons/local/postgres/programs.ts";
import { createRedisProgram } from "../addons/local/redis/program.ts";
import { createRedisProofs } from "../addons/local/redis/proofs.ts";
import { createRedisServers } from "../addons/local/redis/servers.ts";
import type { AddonServers } from "../addons/port.ts";
import { createLocalBuilder } from "../builder/local/adapter.ts";
import type { Builder } from "../builder/port.ts";
import type { LocalConfig } from "../config.ts";
import type { IsBuiltImage } from "../images/account-images.ts";
import type { ImageDigests } from "../images/digests/resolve-digest.ts";
import { startRouter } from "../runtime/local/routing/router.ts";
import { createLocalRuntime } from "../runtime/local/runtime.ts";
import type { Runtime } from "../runtime/port.ts";
import type { Secrets } from "../secrets.ts";
import { createDiskStore } from "../store/disk/adapter.ts";
import { defaultUploadLimits } from "../store/disk/upload-limits.ts";
import type { ObjectStore } from "../store/port.ts";
import { requireSingleInstance } from "./single-instance.ts";

/** The adapters of the ports, chosen by configuration. */
export type Engine = {
  runtime: Runtime;
  builder: Builder;
  store: ObjectStore;
  addonServers: AddonServers;
  isBuiltImage: IsBuiltImage;
  /** Omitted where images run by their tags. */
  imageDigests?: ImageDigests;
  /** How long a release must have been available to be healthy, if its service does not say. */
  minReadySeconds: number;
  /** Answers a request at this process's port if it is for the object store; returns whether it is. */
  other: (req: IncomingMessage, res: ServerResponse) => boolean;
  /** Runs `work` whenever this process is the leader. Absent where there is only one process. */
  lead?: (work: (watched: Pick<Engine, "runtime" | "addonServers">) => Promise<Running>) => Running;
  stop: () => Promise<void>;
};

/**
 * Runs everything on this machine under DATA_DIR and APPS_DIR: uploads as files, builds as folders, releases as
 * processes behind one router port. Takes over what still runs after an earlier process was killed. Throws while
 * another deployer does the same for this database or in this folder.
 */
export async function startLocalEngine(config: LocalConfig, secrets: Secrets, log: Logger): Promise<Engine> {
  const instance = await requireSingleInstance({ url: config.databaseUrl, log });
  const folder = (name: string) => join(config.dataDir, name);
  const apps = (name: string) => join(config.appsDir ?? config.dataDir, name);
  const store = createDiskStore({
    folder: folder("store"),
    baseUrl: config.publicOrigin,
    secrets: config.uploadKeys.map((key) => key.toString("base64")),
    limits: { ...defaultUploadLimits, ...config.uploadLimits },
    log,
  });
  const walls = await chooseWalls(config);
  const builder = createLocalBuilder({ folder: apps("artifacts"), store, environment: process.env, walls });
  const router = await startRouter({
    port: config.routerPort,
    host: config.routerHost,
    domain: config.appsDomain,
    behindProxy: config.trustProxy === "loopback",
    log,
  });
  const runtime = createLocalRuntime({
    folder: apps("runtime"),
    artifactsFolder: apps("artifacts"),
    secret: secrets.runtimeSecret,
    router,
    walls,
    groups: config.appGroups === undefined ? undefined : openControlGroups(config.appGroups),
    log,
  });
  await runtime.start();
  const path = () => process.env.PATH;
  const redis = createRedisServers({ folder: folder("redis"), log, path, walls });
  const redisProgram = createRedisProgram({ folder: config.programsDir, path, log });
  await redis.start();
  const redisProofs = createRedisProofs({ folder: folder("redis-proofs"), path, walls });
  await redisProofs.removeAll();
  return {
    addonServers: createLocalAddons({
      ...{ adminUrl: config.addonPostgresUrl, redis, redisProgram, redisProofs, store, log },
      postgresPrograms: createPostgresPrograms({ folder: config.programsDir, path, log }),
    }),
    runtime,
    builder,
    store,
    minReadySeconds: 1,
    isBuiltImage: () => false,
    other(req, res) {
      if (!/^\/(?:uploads|downloads)\//.test(req.url ?? "")) return false;
      store.handle(req, res).catch((err) => {
        log.error({ err }, "an upload or a download failed");
        res.destroy();
      });
      return true;
    },
    stop: async () => {
      await Promise.all([runtime.stopAll(), redis.stopAll()]);
      await router.close();
      await instance.stop();
    },
  };
}

/** Returns what apps and builds are run behind. Throws where walls are wanted and this machine cannot have them. */
async function chooseWalls({ appWalls, hiddenPaths, appsDir, dataDir }: LocalConfig) {
  if (appWalls === "off") return noWalls;
  const [data, apps] = [resolve(dataDir), resolve(appsDir ?? dataDir)];
  for (const folder of [data, apps]) await mkdir(folder, { recursive: true, mode: 0o700 });
  return raiseWalls([data, ...hiddenPaths, apps], process.env.PATH);
}
