import { type Connected, connectBus } from "../../services/kit/events/bus.ts";
import { createLog } from "../../services/kit/log.ts";
import type { ConfigOf } from "../../services/kit/process/config.ts";
import { loginUrl } from "../database/prepare.ts";
import { databaseUrl } from "../database/provision.ts";
import { openBucket } from "./bucket.ts";
import type { backupFields } from "./config.ts";
import { openRegistry } from "./images.ts";

export type BackupConfig = ConfigOf<typeof backupFields>;

const BUS_MS = 60_000;

/** Returns what a backup is made of and where it goes. */
export function open(config: BackupConfig) {
  const admin = loginUrl(config.serverUrl, config.adminUser, config.adminPassword);
  return {
    database: databaseUrl(admin, config.database),
    backups: openBucket({
      endpoint: config.backupEndpoint,
      region: config.backupRegion,
      bucket: config.backupBucket,
      accessKey: config.backupAccessKey,
      secretKey: config.backupSecretKey,
      prefix: config.backupPrefix,
    }),
    store:
      config.storeEndpoint === undefined
        ? undefined
        : openBucket({
            endpoint: config.storeEndpoint,
            region: config.storeRegion,
            bucket: config.storeBucket,
            accessKey: config.storeAccessKey,
            secretKey: config.storeSecretKey,
            prefix: "",
          }),
    registry:
      config.registryUrl === undefined
        ? undefined
        : openRegistry(config.registryUrl, config.registryPassword),
  };
}

/** Calls `work` with a connection to NATS, which has the streams, and closes it. */
export async function withBus<T>(natsUrl: string, work: (connected: Connected) => Promise<T>): Promise<T> {
  const bus = connectBus(natsUrl, "backup", createLog("backup", "error"));
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`NATS was not reached within ${BUS_MS / 1_000} s`)),
    BUS_MS,
  );
  try {
    const connected = await Promise.race([bus.connected, late.promise]);
    clearTimeout(timer);
    return await work(connected);
  } finally {
    clearTimeout(timer);
    await bus.close();
  }
}
