import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { StartFailure } from "../failure.ts";
import type { DataFolder } from "./data-folder.ts";
import { writeSafely } from "./secrets.ts";

/** Where a proxy in front of the platform takes requests. */
export type PublicAddresses = {
  /** The origin of the API and its pages. */
  publicUrl?: string;
  /** Apps are at https names below it. */
  appsDomain?: string;
};

/** What is asked for at a start; null forgets what was kept. */
export type AskedAddresses = { [K in keyof PublicAddresses]: PublicAddresses[K] | null };

/**
 * Returns what is asked for, and where nothing is, what was kept of the last start: OAuth clients, mails and apps know
 * these addresses. They are stored in `public.json`.
 *
 * @throws StartFailure `folderDamaged` when that cannot be read.
 */
export async function choosePublicAddresses(
  folder: Pick<DataFolder, "dir">,
  { publicUrl, appsDomain }: AskedAddresses,
): Promise<PublicAddresses> {
  const file = join(folder.dir, "public.json");
  const kept = await read(file);
  const chosen = {
    publicUrl: publicUrl === undefined ? kept.publicUrl : (publicUrl ?? undefined),
    appsDomain: appsDomain === undefined ? kept.appsDomain : (appsDomain ?? undefined),
  };
  const text = `${JSON.stringify(chosen, null, 2)}\n`;
  if (publicUrl !== undefined || appsDomain !== undefined) await writeSafely(file, text);
  return chosen;
}

async function read(file: string): Promise<PublicAddresses> {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return {};
    const sentence = `The file ${file} cannot be read. Restore it, or delete it and start with --public-url.`;
    throw new StartFailure("folderDamaged", sentence, { cause });
  }
}
