import { createWriteStream, openAsBlob } from "node:fs";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { END, headerOf, paddingOf } from "../../pack/tar.ts";
import { refused } from "../failure.ts";
import type { Listing } from "./walk.ts";

export type Archive = { blob: Blob; remove: () => Promise<void> };

const SMALL_BYTES = 8 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;

/**
 * Packs the entries of a folder into a gzipped tarball: the same bytes for the same names, contents and exec bits. A large
 * one lies in a temporary file, which `remove` removes.
 */
export async function pack(listing: Listing, signal: AbortSignal): Promise<Archive> {
  const source = Readable.from(tarOf(listing));
  const size = listing.entries.reduce((sum, entry) => sum + (entry.kind === "file" ? entry.size : 0), 0);
  if (size <= SMALL_BYTES) {
    const chunks: Buffer[] = [];
    const keep = async (compressed: AsyncIterable<Buffer>) => {
      for await (const chunk of compressed) chunks.push(chunk);
    };
    await pipeline(source, createGzip(), keep, { signal });
    return { blob: new Blob(chunks as Buffer<ArrayBuffer>[]), remove: async () => {} };
  }
  const folder = await mkdtemp(join(tmpdir(), "berth-up-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const file = join(folder, "source.tgz");
    await pipeline(source, createGzip(), createWriteStream(file, { mode: 0o600 }), { signal });
    return { blob: await openAsBlob(file), remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function* tarOf({ entries }: Listing): AsyncGenerator<Uint8Array> {
  for (const entry of entries) {
    yield headerOf(entry);
    if (entry.kind !== "file") continue;
    yield* contentOf(entry.from, entry.path, entry.size);
    yield paddingOf(entry.size);
  }
  yield END;
}

/** Yields exactly the bytes that the header promises: a file that changes meanwhile would make a broken archive. */
async function* contentOf(from: string, path: string, size: number): AsyncGenerator<Buffer> {
  const changed = () =>
    refused(`${path} changed while it was packed.`, "berth up, or berth up --exclude PATTERN");
  const file = await open(from).catch(() => {
    throw refused(`${path} cannot be read by you.`, `berth up --exclude /${path}`);
  });
  try {
    let read = 0;
    while (read < size) {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(Math.min(CHUNK_BYTES, size - read)));
      if (bytesRead === 0) throw changed();
      read += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
    if ((await file.read(Buffer.alloc(1))).bytesRead > 0) throw changed();
  } finally {
    await file.close();
  }
}
