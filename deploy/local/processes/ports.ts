import { randomInt } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StartFailure } from "../terminal/failure.ts";

/**
 * A port that nothing listens on at 127.0.0.1. It lies below the ranges from which Linux (32768) and macOS
 * (49152) take the ports of outgoing connections, and below those of apps (24000), so that neither takes it
 * before it is bound or while its process is started again.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = randomInt(20_000, 24_000);
    if (await isFree(port)) return port;
  }
  throw new StartFailure("portInUse", "No free port was found between 20000 and 24000 on 127.0.0.1.");
}

/** `preferred` if nothing listens on it at 127.0.0.1, else a free port. */
export async function portOr(preferred: number): Promise<number> {
  return (await isFree(preferred)) ? preferred : freePort();
}

/** Whether a server may listen on this port of 127.0.0.1 now. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}

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

/** The files that `lockFolder` keeps in a folder; whoever empties the folder leaves them. */
export const lockFiles: ReadonlySet<string> = new Set(["lock", "holder.json"]);

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
