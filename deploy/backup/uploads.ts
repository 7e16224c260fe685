import type { Bucket, Objects } from "./bucket.ts";

/** An upload, and where the backups have its content. Backups of before say its type only in that place. */
type Upload = { path: string; copy: string; type?: string };

/** Copies what the backups do not have yet of the object store. Yields all of it as JSON. */
export async function* backUpUploads(store: Objects, backups: Bucket): AsyncGenerator<string> {
  const there = new Set((await backups.list("uploads/")).map(({ path }) => path));
  for (const { path, etag } of await store.list("")) {
    // Another content under the same name is another copy.
    const copy = `uploads/${etag.replaceAll('"', "")}/${path}`;
    // Removed since it was listed: nobody needs it.
    const found = await store.stat(path).catch(undefinedIfMissing);
    if (!found) continue;
    if (!there.has(copy)) {
      const body = await store.get(path).catch(undefinedIfMissing);
      if (!body) continue;
      await backups.put(copy, body, found);
    }
    yield JSON.stringify({ path, copy, type: found.type } satisfies Upload);
  }
}

/** Copies the uploads of a backup into the object store, those that it lacks. */
export async function restoreUploads(store: Objects, backups: Bucket, lines: AsyncIterable<string>) {
  await store.make();
  const there = new Set((await store.list("")).map(({ path }) => path));
  for await (const line of lines) {
    const { path, copy, type } = JSON.parse(line) as Upload;
    if (there.has(path)) continue;
    await store.put(path, await backups.get(copy), { ...(await backups.stat(copy)), ...(type && { type }) });
  }
}

/** How an S3 and the store of one machine say it. */
const MISSING = ["NotFound", "NoSuchKey", "object_not_found"];

function undefinedIfMissing(error: Error & { code?: string }): undefined {
  if (!MISSING.includes(error.code ?? "")) throw error;
}
