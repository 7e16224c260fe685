import { mkdir, readFile, realpath, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StartFailure } from "../failure.ts";
import type { Running } from "../processes/running.ts";

/** What the holder of a folder writes about itself. `url` is the address of the instance, once it answers. */
export type Holder = { pid: number; url?: string };

export type FolderLock = {
  /** Publishes the address of this instance, for the error that others get who want the folder. */
  announce(url: string): Promise<void>;
  release(): void;
};

/**
 * Locks a folder for this process, making it where it is missing. The lock is a transaction on an SQLite file: the
 * kernel releases it with the process, so a killed holder leaves no lock, and of two attempts at once one fails.
 *
 * @throws StartFailure `folderTaken`, naming the holder, when another process (or this one) holds it.
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

/**
 * Calls `start` with the real path of a folder that is locked until the server's process is gone.
 *
 * @throws StartFailure `folderTaken` when the folder is in use.
 */
export async function withLockedFolder<S extends Running>(
  dir: string,
  start: (dir: string) => Promise<S>,
): Promise<S> {
  const lock = await lockFolder(dir);
  try {
    const server = await start(await realpath(dir));
    void server.exited.then(() => lock.release());
    return server;
  } catch (error) {
    lock.release();
    throw error;
  }
}

const SQLITE_BUSY = 5;

function takenSentence(dir: string, holder: Holder | undefined): string {
  const who = holder ? `process ${holder.pid}${holder.url ? ` at ${holder.url}` : ""}` : "another process";
  return `The folder ${dir} is in use by ${who}. Stop that process, or choose another folder with --data.`;
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
