import {
  integer,
  optionalText,
  optionalUrl,
  serviceFields,
  text,
  url,
} from "../../services/kit/process/config.ts";
import { serverFields } from "../database/prepare.ts";

const http = ["http", "https"];

/** Where backups are, if not in a folder. */
export const placeFields = {
  backupEndpoint: url("BACKUP_S3_ENDPOINT", http),
  backupRegion: text("BACKUP_S3_REGION", "us-east-1"),
  backupBucket: text("BACKUP_S3_BUCKET"),
  /** What the name of every object begins with. */
  backupPrefix: text("BACKUP_S3_PREFIX", "berth"),
  backupAccessKey: text("BACKUP_S3_ACCESS_KEY"),
  backupSecretKey: text("BACKUP_S3_SECRET_KEY"),
  /** How many backups are kept. */
  keep: integer("BACKUP_KEEP", { min: 1, fallback: 7 }),
};

/** What `berth backup` reads from the environment. */
export const backupFields = {
  ...serverFields,
  adminUser: text("ADMIN_USER"),
  adminPassword: text("ADMIN_PASSWORD"),
  natsUrl: serviceFields.natsUrl,
  ...placeFields,
  /** The bundled object store; without it, uploads are not Berth's to keep. */
  storeEndpoint: optionalUrl("S3_ENDPOINT", http),
  storeRegion: text("S3_REGION", "us-east-1"),
  storeBucket: text("S3_BUCKET", "berth"),
  storeAccessKey: text("S3_ACCESS_KEY", ""),
  storeSecretKey: text("S3_SECRET_KEY", ""),
  /** The bundled registry; without it, images are not Berth's to keep. */
  registryUrl: optionalUrl("REGISTRY_URL", http),
  registryPassword: text("REGISTRY_PASSWORD", ""),
  /** A docker configuration with its login, in place of the password of `berth`. */
  registryAuth: optionalText("REGISTRY_AUTH"),
};

/** What `berth restore` reads besides, and what prepares the database. */
export const restoreFields = {
  ...backupFields,
  /** The backup to restore; the newest without it. */
  from: optionalText("RESTORE_FROM"),
  encryptionKeys: text("ENCRYPTION_KEYS"),
  /** How long it waits for processes of the platform that are still stopping. */
  patience: integer("PATIENCE_SECONDS", { fallback: 120 }),
};
