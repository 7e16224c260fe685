import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { retry } from "../../services/kit/concurrency/retry.ts";
import { isUnreachable } from "../../services/kit/failures.ts";
import { createLog, type Logger } from "../../services/kit/log.ts";
import { createPool } from "../../services/kit/postgres/db.ts";
import { findMissing, migrate, UnfitSchema } from "../../services/kit/postgres/migrate.ts";
import {
  type Field,
  integer,
  optionalText,
  readConfig,
  text,
  url,
} from "../../services/kit/process/config.ts";
import { checkEncryptionKeys, databaseUrl, type Login, prepareDatabase, WrongKey } from "./provision.ts";

const schemes = ["postgres", "postgresql"];
const root = resolve(import.meta.dirname, "../..");

const names: Field<string[]> = {
  name: "PROCESSES",
  parse: (value = "") => {
    const list = value.split(",").map((name) => name.trim());
    if (!list.every((name) => /^[a-z]+$/.test(name)))
      throw new Error("must be names of processes, separated by commas");
    return list;
  },
};

/** The server, and the database of the installation. */
export const serverFields = {
  /** The server's URL, without a user or password. */
  serverUrl: url("DATABASE_SERVER_URL", schemes),
  database: text("DATABASE_NAME", "berth"),
};

const prepareFields = {
  ...serverFields,
  /** A role's name is this prefix and the process's name: roles are shared by all databases of a server. */
  rolePrefix: text("ROLE_PREFIX", ""),
  processes: names,
  /** A folder with a file per process: the password of its role. */
  passwords: text("PASSWORDS_DIR"),
  /** A user that may create roles and databases; without it, roles, database and schemas must exist. */
  adminUser: optionalText("ADMIN_USER"),
  adminPassword: optionalText("ADMIN_PASSWORD"),
  encryptionKeys: optionalText("ENCRYPTION_KEYS"),
  patience: integer("PATIENCE_SECONDS", { fallback: 300 }),
};

/**
 * Prepares the database of an installation for this version before its processes start: creates roles and schemas,
 * checks that the encryption keys are those of the data, and runs every process's migrations. Safe to repeat. Retries
 * for `PATIENCE_SECONDS` while the server is unavailable.
 */
export async function prepare(env: Record<string, string | undefined>, log: Logger): Promise<void> {
  const config = readConfig(env, prepareFields);
  const logins = await Promise.all(
    config.processes.map(async (name): Promise<Login> => {
      const password = (await readFile(join(config.passwords, name), "utf8")).trim();
      return { name, role: config.rolePrefix + name, password };
    }),
  );
  const login = (user: string, password: string | undefined) => loginUrl(config.serverUrl, user, password);
  if (config.adminUser !== undefined) {
    const admin = login(config.adminUser, config.adminPassword);
    await retry(() => prepareDatabase(databaseUrl(admin, "postgres"), config.database, logins), {
      everyMs: 1_000,
      forMs: config.patience * 1_000,
      retryIf: isUnreachable,
      failed: (error) => log.info({ err: error }, "the database is unavailable"),
    });
    const { encryptionKeys, database } = config;
    if (encryptionKeys)
      await checkEncryptionKeys(databaseUrl(admin, database), "installation", encryptionKeys);
  }
  for (const { name, role, password } of logins) {
    const applied = await migrateSchema(databaseUrl(login(role, password), config.database), name);
    log.info({ process: name, applied }, "the schema is up to date");
  }
}

/** Runs the migrations of a process, as its role. Returns those that were missing. */
export async function migrateSchema(url: string, name: string): Promise<string[]> {
  const pool = createPool(url, { name: "prepare", max: 1 });
  return migrate(pool, migrationsOf(name)).finally(() => pool.end());
}

/**
 * Waits until the database of this process (`DATABASE_URL`) has every migration of this version. Fails when this
 * version must not run on it.
 */
export async function waitForDatabase(
  env: Record<string, string | undefined>,
  name: string,
  log: Logger,
): Promise<void> {
  const config = readConfig(env, { databaseUrl: url("DATABASE_URL", schemes) });
  const pool = createPool(config.databaseUrl, { name: "wait", max: 1 });
  try {
    for (let logged = 0; ; await delay(500)) {
      const missing = await findMissing(pool, migrationsOf(name)).catch((error: Error) => error);
      if (missing instanceof UnfitSchema) throw missing;
      if (Array.isArray(missing) && missing.length === 0) return;
      if (Date.now() - logged < 10_000) continue;
      log.info({ missing: Array.isArray(missing) ? missing : missing.message }, "waiting for the database");
      logged = Date.now();
    }
  } finally {
    await pool.end();
  }
}

/** Returns the server's URL with a user and its password. */
export function loginUrl(serverUrl: string, user: string, password: string | undefined): string {
  const server = new URL(serverUrl);
  server.username = encodeURIComponent(user);
  server.password = encodeURIComponent(password ?? "");
  return server.href;
}

function migrationsOf(name: string): string {
  return join(root, name === "gateway" ? name : join("services", name), "migrations");
}

if (import.meta.main) {
  const log = createLog("prepare", process.env.LOG_LEVEL || "info");
  const [command, name = ""] = process.argv.slice(2);
  try {
    if (command === "wait") await waitForDatabase(process.env, name, log);
    else await prepare(process.env, log);
  } catch (error) {
    // Trying again would not help, and the chart's Job does not.
    const final = error instanceof WrongKey || error instanceof UnfitSchema;
    log.fatal({ err: error }, final ? error.message : "could not prepare the database");
    process.exitCode = final ? 78 : 1;
  }
}
