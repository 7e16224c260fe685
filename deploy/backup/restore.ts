import { isDeepStrictEqual } from "node:util";
import type pg from "pg";
import { retry } from "../../services/kit/concurrency/retry.ts";
import { DEAD_STREAM, STREAM } from "../../services/kit/events/bus.ts";
import { withBus } from "../../services/kit/events/with-bus.ts";
import { createLog } from "../../services/kit/log.ts";
import { type Done, runCommand } from "../../services/kit/process/command.ts";
import { readConfig } from "../../services/kit/process/config.ts";
import { prepare } from "../database/prepare.ts";
import { fingerprints } from "../database/provision.ts";
import { type Backup, describe, listBackups, partOf } from "./backups.ts";
import type { Bucket } from "./bucket.ts";
import { restoreFields } from "./config.ts";
import {
  beAlone,
  clear,
  connect,
  isRestored,
  listOthers,
  readContent,
  setSequences,
  whileConnected,
  writeRows,
} from "./database.ts";
import { removeStreams, writeMessages } from "./events.ts";
import { restoreImages } from "./images.ts";
import { open, type Parts } from "./open.ts";
import { restoreUploads } from "./uploads.ts";

/** Restores a backup into the servers that the environment names, of the chart. */
export async function restore(env: Record<string, string | undefined>): Promise<Done> {
  const config = readConfig(env, restoreFields);
  const { encryptionKeys, from, patience } = config;
  const prepareServers = () => prepare(env, createLog("restore", "error"));
  return restoreBackup(open(config), { encryptionKeys, from, patience, prepareServers });
}

type Restoring = {
  encryptionKeys: string;
  /** The backup to restore; the newest without it. */
  from: string | undefined;
  /** How many seconds it waits for processes of the platform that are still stopping. */
  patience: number;
  /** Makes the tables of this version where they are missing. */
  prepareServers: () => Promise<void>;
};

/**
 * Brings a backup back into servers that are empty, or whose content it replaces, while no process of the platform
 * runs. May be repeated after a failure: the database is replaced in one transaction.
 */
export async function restoreBackup(
  { database, natsUrl, backups, store, registry }: Parts,
  { encryptionKeys, from, patience, prepareServers }: Restoring,
): Promise<Done> {
  const all = await listBackups(backups);
  const name = from ?? all.at(-1);
  if (name === undefined || !all.includes(name))
    return {
      output: `there is no ${name ? `backup ${name}` : "backup"}; existing backups: ${all.join(", ")}\n`,
      exitCode: 1,
    };
  const made = withoutKeys(await describe(backups, name));
  requireKeys(made, encryptionKeys);
  await prepareServers();
  const writer = await connect(database);
  try {
    await whileConnected(writer, "the backup was not restored; restore it again", async () => {
      await beAlone(writer);
      await retry(() => requireStopped(writer), { everyMs: 1_000, forMs: patience * 1_000 });
      await requireSameSchemas(writer, made);
      const lines = (part: string) => backups.lines(partOf(name, part));
      if (store && made.uploads) await restoreUploads(store, backups, lines("uploads"));
      if (registry && made.images) await restoreImages(registry, backups, lines("images"));
      await withBus(natsUrl, "backup", removeStreams);
      await writeDatabase(writer, backups, name, made);
      await withBus(natsUrl, "backup", async (connected) => {
        for (const stream of [STREAM, DEAD_STREAM]) await writeMessages(connected, lines(stream));
      });
    });
  } finally {
    await writer.end();
  }
  const lacks = made.missing ? ` It did not contain ${made.missing.join(", ")}.` : "";
  return { output: `backup ${name} is restored; start the platform again.${lacks}\n`, exitCode: 0 };
}

async function writeDatabase(writer: pg.Client, backups: Bucket, name: string, made: Backup): Promise<void> {
  await writer.query("begin");
  await clear(writer, made);
  for (const table of made.tables)
    await writeRows(writer, table, backups.lines(partOf(name, `${table.schema}.${table.name}`)));
  await setSequences(writer, made.sequences);
  await writer.query("commit");
}

/** Without their keys, variables and passwords of addons can never be read again: said before anything changes. */
function requireKeys({ keys }: Backup, given: string): void {
  const known = fingerprints(given);
  const ids = Object.keys(keys);
  if (ids.length > 0 && !ids.some((id) => known.get(id) === keys[id]))
    throw new Error(
      `the encryption keys differ from those of the backup (${ids.join(", ")}): restore the Secret with the keys first`,
    );
}

async function requireStopped(writer: pg.Client): Promise<void> {
  const others = await listOthers(writer);
  if (others.length > 0)
    throw new Error(
      `stop the platform first; these processes are still connected to the database: ${others.join(", ")}`,
    );
}

/** Returns a backup without the table of its keys' fingerprints, which those of before have. */
function withoutKeys(made: Backup): Backup {
  return { ...made, tables: made.tables.filter(isRestored) };
}

async function requireSameSchemas(writer: pg.Client, made: Backup): Promise<void> {
  const { migrations, tables } = await readContent(writer);
  if (!isDeepStrictEqual([migrations, tables], [made.migrations, made.tables]))
    throw new Error(
      `the backup was made by version ${made.version}, whose tables differ: restore it with that version, then upgrade`,
    );
}

if (import.meta.main) await runCommand(() => restore(process.env));
