import type { Bucket } from "./bucket.ts";

/** An upload, and where the backups have its content. */
type Upload = { path: string; copy: string };

/** Copies what the backups do not have yet of the object store. Yields all of it as JSON. */
export async function* backUpUploads(store: Bucket, backups: Bucket): AsyncGenerator<string> {
  const there = new Set((await backups.list("uploads/")).map(({ path }) => path));
  for (const { path, etag } of await store.list("")) {
    // Another content under the same name is another copy.
    const copy = `uploads/${etag.replaceAll('"', "")}/${path}`;
    if (!there.has(copy)) {
      // Removed since it was listed: nobody needs it.
      const found = await store.stat(path).catch(undefinedIfMissing);
      const body = found && (await store.get(path).catch(undefinedIfMissing));
      if (!body) continue;
      await backups.put(copy, body, found);
    }
    yield JSON.stringify({ path, copy } satisfies Upload);
  }
}

/** Copies the uploads of a backup into the object store, those that it lacks. */
export async function restoreUploads(store: Bucket, backups: Bucket, lines: AsyncIterable<string>) {
  await store.make();
  const there = new Set((await store.list("")).map(({ path }) => path));
  for await (const line of lines) {
    const { path, copy } = JSON.parse(line) as Upload;
    if (there.has(path)) continue;
    await store.put(path, await backups.get(copy), await backups.stat(copy));
  }
}

function undefinedIfMissing(error: Error & { code?: string }): undefined {
  if (error.code !== "NotFound" && error.code !== "NoSuchKey") throw error;
}
