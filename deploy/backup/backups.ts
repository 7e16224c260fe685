import type { Bucket } from "./bucket.ts";
import type { Content } from "./database.ts";
import { blobPath } from "./images.ts";

/** What a backup says of itself. It is written last: without it a backup is not whole, and is never restored. */
export type Backup = Content & {
  at: string;
  version: string;
  uploads: boolean;
  images: boolean;
  /** What it does not hold and has to be kept elsewhere; backups of before have no such list. */
  missing?: string[];
};

/** Parts of a backup whose objects are shared by all backups, and how a line names them. */
const SHARED = [
  { list: "uploads", folder: "uploads/", of: (line: { copy: string }) => [line.copy] },
  { list: "images", folder: "blobs/", of: (line: { blobs: string[] }) => line.blobs.map(blobPath) },
] as const;

const folderOf = (name: string) => `backups/${name}`;
const manifestOf = (name: string) => `${folderOf(name)}/backup.json`;

/** Returns the path of a part of a backup: `uploads`, `images`, the name of a stream, or a table. */
export function partOf(name: string, part: string): string {
  return `${folderOf(name)}/${part}.jsonl.gz`;
}

/** Writes what reads the tables of a backup without Berth (docs/backup.md#reading-a-backup-without-berth). */
export function putDefinitions(bucket: Bucket, name: string, sql: string): Promise<void> {
  const body = Buffer.from(sql);
  return bucket.put(`${folderOf(name)}/tables.sql`, body, { size: body.length, type: "application/sql" });
}

/** Returns the name of a backup made at this time, such as `2027-01-31T03-00-00Z`. Names sort by time. */
export function nameAt(time: Date): string {
  return `${time.toISOString().slice(0, 19).replaceAll(":", "-")}Z`;
}

export const finish = (bucket: Bucket, name: string, backup: Backup) =>
  bucket.putJson(manifestOf(name), backup);

export const describe = (bucket: Bucket, name: string) => bucket.getJson<Backup>(manifestOf(name));

/** Returns the names of the backups that are whole, oldest first. */
export async function listBackups(bucket: Bucket): Promise<string[]> {
  const paths = (await bucket.list("backups/")).map(({ path }) => path);
  return paths.flatMap((path) => /^backups\/([^/]+)\/backup\.json$/.exec(path)?.[1] ?? []).sort();
}

/** Removes all but the newest `keep` backups, those that are not whole, and what none of the kept ones needs. */
export async function prune(bucket: Bucket, keep: number): Promise<void> {
  const kept = (await listBackups(bucket)).slice(-keep);
  const isKept = (path: string) => kept.includes(path.split("/")[1]!);
  const old = (await bucket.list("backups/")).map(({ path }) => path).filter((path) => !isKept(path));
  // What says that a backup is whole goes first.
  await bucket.remove(old.sort((one, other) => rank(one) - rank(other)));
  for (const { list, folder, of } of SHARED) {
    const needed = new Set<string>();
    for (const name of kept) {
      const backup = await describe(bucket, name);
      if (!backup[list]) continue;
      for await (const line of bucket.lines(partOf(name, list)))
        for (const path of of(JSON.parse(line))) needed.add(path);
    }
    const there = (await bucket.list(folder)).map(({ path }) => path);
    await bucket.remove(there.filter((path) => !needed.has(path)));
  }
}

function rank(path: string): number {
  return path.endsWith("/backup.json") ? 0 : 1;
}
