import { access, readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { makePostgresAgain } from "../../../services/deployer/addons/sql.ts";
import { createPool } from "../../../services/kit/postgres/db.ts";
import { programsDir } from "../../../services/kit/process/program.ts";
import type { Parts } from "../../backup/open.ts";
import { migrateSchema } from "../../database/prepare.ts";
import { takeDataFolder } from "../data/data-folder.ts";
import { rotateLogs } from "../data/logs.ts";
import { readPassword, readSecrets, type Secrets, secretsFile } from "../data/secrets.ts";
import { StartFailure } from "../failure.ts";
import { findNatsServer } from "../nats/install.ts";
import { NATS_USER, startNats } from "../nats/nats.ts";
import { addonRole, database, prepareDatabase } from "../postgres/database.ts";
import { startPostgres } from "../postgres/postgres.ts";
import { endOrphanedPrograms } from "../programs/program-process.ts";
import { programs, roles } from "../programs/programs.ts";
import { openUploads } from "./uploads.ts";

/** The servers of a data folder, as backups know them, and its secrets. */
export type Servers = Omit<Parts, "backups"> & { secrets: Secrets };
type Stopped = Servers & {
  /** Has the next start make what a new server lacks: the databases of addons. */
  makeAddonsAgain(): Promise<void>;
};

/**
 * Calls `work` with the servers of a data folder: those that run, or where the platform does not, started for that time.
 *
 * @throws StartFailure
 */
export async function withServers<T>(data: string, work: (servers: Servers) => Promise<T>): Promise<T> {
  return withStoppedPlatform(data, work).catch(async (error) => {
    if (!(error instanceof StartFailure) || error.kind !== "folderTaken") throw error;
    return work(await runningServers(await realpath(data)));
  });
}

/**
 * As `withServers`, with the tables of this version, and only where the platform does not run.
 *
 * @throws StartFailure `folderTaken` when it does.
 */
export async function withStoppedPlatform<T>(
  data: string,
  work: (servers: Stopped) => Promise<T>,
): Promise<T> {
  // A folder without them would get new ones, with which nothing can be read that was kept.
  await access(secretsFile(data)).catch(() => {
    const sentence = `${secretsFile(data)} with the keys does not exist. Copy the file of the original data folder there first.`;
    throw new StartFailure("folderDamaged", sentence);
  });
  const { folder, lock } = await takeDataFolder(data);
  const started: { stop(): Promise<void> }[] = [];
  try {
    await endOrphanedPrograms(
      programs.map((program) => program.folder),
      folder.dir,
    );
    await rotateLogs(folder.logs);
    const secrets = await readSecrets(folder.dir, [...roles, addonRole], false);
    const binary = await findNatsServer(programsDir, console.error);
    const postgres = await startPostgres({
      dir: folder.postgres,
      durable: true,
      log: folder.log("postgres"),
    });
    started.push(postgres);
    const nats = await startNats({ binary, dir: folder.nats, log: folder.log("nats") });
    started.push(nats);
    await prepareDatabase(postgres, roles, secrets, folder.dir);
    const urlOf = (role: string) => postgres.url(database, role, secrets.databasePasswords[role]);
    for (const role of roles) await migrateSchema(urlOf(role), role);
    return await work({
      database: postgres.url(database),
      natsUrl: nats.url,
      store: openUploads(join(folder.deployer, "store")),
      secrets,
      async makeAddonsAgain() {
        const pool = createPool(urlOf("deployer"), { name: "restore", max: 1 });
        await makePostgresAgain(pool).finally(() => pool.end());
      },
    });
  } finally {
    for (const server of started.reverse()) await server.stop();
    lock.release();
  }
}

async function runningServers(dir: string): Promise<Servers> {
  const secrets = await readSecrets(dir, [...roles, addonRole], false);
  const ports = JSON.parse(await readFile(join(dir, "ports.json"), "utf8"));
  const url = async (scheme: string, user: string, server: string) => {
    const password = await readPassword(join(dir, server, "password"));
    return `${scheme}://${user}:${encodeURIComponent(password ?? "")}@127.0.0.1:${ports[server]}`;
  };
  return {
    database: `${await url("postgres", "postgres", "postgres")}/${database}`,
    natsUrl: await url("nats", NATS_USER, "nats"),
    store: openUploads(join(dir, "deployer", "store")),
    secrets,
  };
}
