import { readFileSync } from "node:fs";
import { parsePushLogin } from "../../services/deployer/images/pulls/push-login.ts";
import type { ConfigOf } from "../../services/kit/process/config.ts";
import { loginUrl } from "../database/prepare.ts";
import { databaseUrl } from "../database/provision.ts";
import { type Bucket, type Objects, openBucket } from "./bucket.ts";
import type { backupFields, placeFields } from "./config.ts";
import { openRegistry, type Registry } from "./images.ts";

export type BackupConfig = ConfigOf<typeof backupFields>;

/** What a backup is made of and where it goes. */
export type Parts = {
  /** The platform's database, as a user who reads and writes all of it. */
  database: string;
  natsUrl: string;
  backups: Bucket;
  /** Uploads, where they are Berth's to keep. */
  store?: Objects | undefined;
  /** Images, where they are Berth's to keep. */
  registry?: Registry | undefined;
};

/** Returns the parts that the environment names. */
export function open(config: BackupConfig): Parts {
  const admin = loginUrl(config.serverUrl, config.adminUser, config.adminPassword);
  return {
    database: databaseUrl(admin, config.database),
    natsUrl: config.natsUrl,
    backups: openBackups(config),
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
    registry: registryOf(config),
  };
}

function registryOf({ registryUrl, registryAuth, registryPassword }: BackupConfig): Registry | undefined {
  if (registryUrl === undefined) return undefined;
  if (registryAuth === undefined) return openRegistry(registryUrl, registryPassword);
  const { user, password } = parsePushLogin(readFileSync(registryAuth, "utf8"), new URL(registryUrl).host);
  return openRegistry(registryUrl, password, user);
}

/** Returns the S3 of the environment as a place for backups. */
export function openBackups(config: ConfigOf<typeof placeFields>): Bucket {
  return openBucket({
    endpoint: config.backupEndpoint,
    region: config.backupRegion,
    bucket: config.backupBucket,
    accessKey: config.backupAccessKey,
    secretKey: config.backupSecretKey,
    prefix: config.backupPrefix,
  });
}
