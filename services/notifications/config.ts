import { isAbsolute } from "node:path";
import { mailFields } from "../kit/mail/mail.ts";
import { SERVICE_CONNECTIONS } from "../kit/postgres/connection.ts";
import {
  apiPrefix,
  type ConfigOf,
  choice,
  consoleSwitch,
  integer,
  json,
  keys,
  optionalText,
  serviceFields,
  url,
} from "../kit/process/config.ts";

/** The maximum number of connections to the database: one more than others, on which changes are signaled to streams. */
export const connections = SERVICE_CONNECTIONS + 1;

export const fields = {
  ...serviceFields,
  identityUrl: url("IDENTITY_URL", ["http", "https"]),
  deployerUrl: url("DEPLOYER_URL", ["http", "https"]),
  ...mailFields,
  /** Seal the secrets of webhooks. */
  secretKeys: keys("SECRET_KEYS"),
  /** Whether webhooks may lead into private networks, and to this machine (docs/webhooks.md#urls). */
  webhooksPrivate: choice("WEBHOOKS_PRIVATE", ["on", "off"], "off"),
  apiPrefix,
  console: consoleSwitch,
  /** Folders on the disks that are watched; without any, nothing is (docs/operations.md#disk-and-memory). */
  watchedFolders: json<string[]>("WATCHED_FOLDERS", [], isPaths, "a list of absolute paths"),
  /** The name of the node, unless it is the host name. */
  nodeName: optionalText("NODE_NAME"),
  /** From how many percent in use a disk is said to fill up, and again, as urgent; 0 for never. */
  diskWarnPercent: integer("DISK_WARN_PERCENT", { max: 100, fallback: 85 }),
  diskUrgentPercent: integer("DISK_URGENT_PERCENT", { max: 100, fallback: 95 }),
  /** Below how many percent available memory is said to run short; 0 for never. */
  memoryWarnPercent: integer("MEMORY_WARN_PERCENT", { max: 90, fallback: 10 }),
};

function isPaths(value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => typeof one === "string" && isAbsolute(one));
}

export type Config = ConfigOf<typeof fields>;
