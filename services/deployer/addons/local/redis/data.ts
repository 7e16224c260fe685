import { createWriteStream, existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

/** The folder of a server's data. */
export const dataOf = (folder: string) => join(folder, "data");
/** Its data before a restore, until the server has started with that of the backup. */
const beforeOf = (folder: string) => join(folder, "data.before");
const replacedOf = (folder: string) => join(folder, "data.replaced");
/** A backup that is to be restored. */
const receivedOf = (folder: string) => join(folder, "received.rdb");

/** Copies a backup beside the data of a server. */
export async function receive(folder: string, content: Readable): Promise<void> {
  await pipeline(content, createWriteStream(receivedOf(folder), { mode: 0o600 }));
}

/** Replaces the data of a server that does not run by the backup that was received, until `keep` or `putBack`. */
export function replaceData(folder: string): void {
  const [data, received] = [dataOf(folder), receivedOf(folder)];
  putBack(folder);
  mkdirSync(data, { recursive: true, mode: 0o700 });
  renameSync(data, beforeOf(folder));
  mkdirSync(data, { mode: 0o700 });
  // An RDB file is an append-only file to which nothing was appended yet; newer servers move it to a folder.
  renameSync(received, join(data, "appendonly.aof"));
}

/** Keeps the data of a restore: there is no way back. */
export function keep(folder: string): void {
  renameSync(beforeOf(folder), replacedOf(folder));
  rmSync(replacedOf(folder), { recursive: true, force: true });
}

/** Undoes a restore that was not kept, and removes what is left of one that was. Idempotent. */
export function putBack(folder: string): void {
  if (existsSync(beforeOf(folder))) {
    rmSync(dataOf(folder), { recursive: true, force: true });
    renameSync(beforeOf(folder), dataOf(folder));
  }
  rmSync(replacedOf(folder), { recursive: true, force: true });
}

/** Removes a backup that was not received as a whole. */
export function forgetReceived(folder: string): Promise<void> {
  return rm(receivedOf(folder), { force: true });
}

/** Yields a snapshot, and in the end removes the file that the server made for it. */
export async function* thenForget(folder: string, content: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* content;
  } finally {
    await rm(join(dataOf(folder), "dump.rdb"), { force: true });
  }
}
