import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StartFailure } from "../terminal/failure.ts";

/** What a holder tells others about itself. `url` is where the running instance answers, once it does. */
export type Holder = { pid: number; url?: string };

export type FolderLock = {
  /** Tell those who find the folder taken where this instance answers. */
  announce(url: string): Promise<void>;
  release(): void;
};

/**
 * Take a folder for this process alone; it is made where it is missing. The lock is a transaction on an SQLite
 * file: the kernel drops it with the process, so a killed holder never leaves a lock behind, and two that come
 * at once cannot both get it.
 *
 * @throws StartFailure `folderTaken`, naming the holder, when another process (or this one) has it.
 */
export async function lockFolder(dir: string): Promise<FolderLock> {
  await mkdir(dir, { recursive: true });
  const holderFile = join(dir, "holder.json");
  const database = new DatabaseSync(join(dir, "lock"), { timeout: 0 });
  try {
    // No journal on disk: nothing is ever written, the transaction only holds the lock.
    database.exec("PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw damagedLock(dir, error);
    throw new StartFailure("folderTaken", takenSentence(dir, await readHolder(holderFile)));
  }
  await writeHolder(holderFile, { pid: process.pid });
  return {
    announce: (url) => writeHolder(holderFile, { pid: process.pid, url }),
    release: () => {
      if (database.isOpen) database.close();
    },
  };
}

const SQLITE_BUSY = 5;

function takenSentence(dir: string, holder: Holder | undefined): string {
  const who = holder ? `process ${holder.pid}${holder.url ? ` at ${holder.url}` : ""}` : "another process";
  return `The folder ${dir} is in use by ${who}. Stop it first, or give this one a folder of its own with --data.`;
}

function damagedLock(dir: string, cause: unknown): StartFailure {
  return new StartFailure(
    "folderDamaged",
    `The lock file ${join(dir, "lock")} cannot be used (${(cause as Error).message}).`,
    { cause },
  );
}

async function readHolder(file: string): Promise<Holder | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch {
    return undefined; // The holder has not written it yet.
  }
}

async function writeHolder(file: string, holder: Holder): Promise<void> {
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, JSON.stringify(holder));
  await rename(temporary, file);
}
