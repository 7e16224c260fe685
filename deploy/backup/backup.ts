import { readFile } from "node:fs/promises";
import { withBus } from "../../services/kit/events/with-bus.ts";
import { type Done, runCommand } from "../../services/kit/process/command.ts";
import { readConfig } from "../../services/kit/process/config.ts";
import { type Backup, finish, nameAt, partOf, prune, putDefinitions } from "./backups.ts";
import type { Bucket } from "./bucket.ts";
import { backupFields } from "./config.ts";
import {
  beAlone,
  beginCut,
  connect,
  readContent,
  readDefinitions,
  readRows,
  whileConnected,
} from "./database.ts";
import { handledByAll, type Range, readMessages, readRanges } from "./events.ts";
import { backUpImages } from "./images.ts";
import { open, type Parts } from "./open.ts";
import { backUpUploads } from "./uploads.ts";

/** Makes a backup of the installation that the environment names. */
export async function backup(env: Record<string, string | undefined>, now = new Date()): Promise<Done> {
  const config = readConfig(env, backupFields);
  const parts = open(config);
  const missing = [
    "the encryption keys",
    "the data of addons",
    ...(parts.store ? [] : ["uploads"]),
    ...(parts.registry ? [] : ["images"]),
  ];
  return makeBackup(parts, { keep: config.keep, missing }, now);
}

/**
 * Makes a backup of an installation while it runs, and removes those that are too old. Database and events are of one
 * moment; uploads and images are of any time after it: they are never changed, only added and removed. `missing` is what
 * it does not hold.
 */
export async function makeBackup(
  { database, natsUrl, backups, store, registry }: Parts,
  { keep, missing }: { keep: number; missing: string[] },
  now = new Date(),
): Promise<Done> {
  const name = nameAt(now);
  const reader = await connect(database);
  try {
    await whileConnected(reader, "the backup was not made", async () => {
      await beAlone(reader);
      const content = await withBus(natsUrl, "backup", async (connected) => {
        const handled = await handledByAll(connected);
        const ranges = await beginCut(database, reader, () => readRanges(connected, handled));
        const lines = (range: Range) => readMessages(connected, range);
        for (const range of ranges) await backups.putLines(partOf(name, range.stream), lines(range));
        return readContent(reader);
      });
      for (const table of content.tables)
        await backups.putLines(partOf(name, `${table.schema}.${table.name}`), readRows(reader, table));
      await putDefinitions(backups, name, await readDefinitions(reader, content.tables));
      await reader.query("commit");
      const put = (part: string, lines: AsyncIterable<string>, to: Bucket) =>
        to.putLines(partOf(name, part), lines);
      if (store) await put("uploads", backUpUploads(store, backups), backups);
      if (registry) await put("images", backUpImages(registry, backups), backups);
      const also = { uploads: store !== undefined, images: registry !== undefined };
      const made: Backup = { at: now.toISOString(), version: await version(), ...also, missing, ...content };
      // Still alone: else another backup may have removed what this one counts on.
      await reader.query("select 1");
      await finish(backups, name, made);
      await prune(backups, keep);
    });
  } finally {
    await reader.end();
  }
  return { output: `backup ${name} is complete; it does not contain ${missing.join(", ")}\n`, exitCode: 0 };
}

async function version(): Promise<string> {
  return JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8")).version;
}

if (import.meta.main) await runCommand(() => backup(process.env));
