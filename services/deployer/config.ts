import { keys, port, type readConfig, serviceFields, text, url } from "../kit/config.ts";

/** What the deployer reads from its environment. */
export const fields = {
  ...serviceFields,
  /** Folder of uploads, builds, artifacts and running apps. */
  dataDir: text("DATA_DIR"),
  /** Port under which all apps answer, told apart by host name; 0 takes a free one. */
  routerPort: port("ROUTER_PORT", 0),
  /** Origin at which users reach the gateway; upload URLs begin with it. */
  publicOrigin: url("PUBLIC_ORIGIN", ["http", "https"]),
  /** Administrator's URL of the server in which postgres addons get their databases. */
  addonPostgresUrl: url("ADDON_POSTGRES_URL", ["postgres", "postgresql"]),
  variablesUrl: url("VARIABLES_URL", ["http", "https"]),
  /** Seal addon passwords and bind archive refs. */
  secretKeys: keys("SECRET_KEYS"),
  /** Sign upload URLs. */
  uploadKeys: keys("UPLOAD_KEYS"),
};

export type Config = ReturnType<typeof readConfig<typeof fields>>;
