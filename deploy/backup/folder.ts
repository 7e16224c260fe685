import { randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readdir, rename, rm, rmdir, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { type Bucket, withLines } from "./bucket.ts";

/** What a file is called until all of it is written. */
const UNFINISHED = ".unfinished";

/** Returns a folder of this machine as a place for backups: it can be copied to an S3 as it is. Types are not kept. */
export function openFolder(dir: string): Bucket {
  const fileOf = (path: string) => join(dir, path);
  return withLines({
    async make() {
      await mkdir(dir, { recursive: true, mode: 0o700 });
    },
    async put(path, body) {
      const file = fileOf(path);
      const temporary = `${file}.${randomBytes(6).toString("hex")}${UNFINISHED}`;
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      const handle = await open(temporary, "wx", 0o600);
      try {
        await handle.writeFile(body);
        await handle.sync();
        await handle.close();
        await rename(temporary, file);
      } catch (error) {
        await handle.close().catch(() => {});
        await rm(temporary, { force: true });
        throw error;
      }
    },
    async get(path) {
      await stat(fileOf(path));
      return createReadStream(fileOf(path));
    },
    async stat(path) {
      return { size: (await stat(fileOf(path))).size, type: "" };
    },
    async list(folder) {
      const entries = await readdir(fileOf(folder), { recursive: true, withFileTypes: true }).catch(
        noneIfMissing,
      );
      const found = [];
      for (const entry of entries) {
        if (!entry.isFile()) continue;
        const file = join(entry.parentPath, entry.name);
        found.push({
          path: relative(dir, file).split(sep).join("/"),
          size: (await stat(file)).size,
          etag: "",
        });
      }
      return found;
    },
    async remove(paths) {
      for (const path of paths) {
        await rm(fileOf(path), { force: true });
        await removeEmpty(dirname(fileOf(path)));
      }
    },
  });
}

/** Removes folders that have become empty, as an S3 has none. */
async function removeEmpty(folder: string): Promise<void> {
  const removed = await rmdir(folder).then(
    () => true,
    () => false,
  );
  if (removed) await removeEmpty(dirname(folder));
}

function noneIfMissing(error: NodeJS.ErrnoException) {
  if (error.code !== "ENOENT") throw error;
  return [];
}
