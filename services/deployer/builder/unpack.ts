import { linkSync, mkdirSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { type Duplex, type Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { type Extract, extract } from "tar-stream";
import { checkEntry, checkLink, type EntryKind, normalizePath } from "./archive-path.ts";
import { BuildFailure, type BuildLimits } from "./port.ts";

export interface Unpacked {
  entries: number;
  bytes: number;
  /** Entries that only macOS needs (`._name`), left out. */
  skipped: number;
}

type Entry = Extract extends AsyncIterable<infer One> ? One : never;

/** Smaller files are held in memory and written at once: most of an archive is made of them. */
const smallBytes = 256 * 1024;

/**
 * Unpacks a gzipped tarball into the empty folder `target`, never outside of it, whatever the archive says
 * (decisions.md §4). `decode` takes the place of gunzip. Keeps the executable bit and drops all other modes and owners. Throws `BuildFailure`
 * with stage `source`; what was written until then stays for the caller to remove.
 */
export async function unpackArchive(
  source: Readable,
  target: string,
  limits: BuildLimits,
  signal?: AbortSignal,
  decode: Duplex = createGunzip(),
): Promise<Unpacked> {
  const unpacked: Unpacked = { entries: 0, bytes: 0, skipped: 0 };
  const kinds = new Map<string, EntryKind>([["", "directory"]]);
  const archive = extract();
  // Headers and padding come on top of the files.
  const tap = countBytes(limits.unpackedBytes + limits.entries * 2048, () => tooLarge(limits));
  const piped = pipeline(source, decode, tap, archive, { signal });
  piped.catch(() => {}); // it is awaited below
  try {
    for await (const entry of archive) {
      await unpackEntry(entry, target, kinds, limits, unpacked);
      entry.resume();
    }
    await piped;
  } catch (error) {
    archive.destroy();
    source.destroy();
    const cause = await piped.then(
      () => undefined,
      (reason) => reason,
    );
    signal?.throwIfAborted();
    // What writing ran into ended the stream: the stream's own words would hide it.
    const first = error instanceof BuildFailure || (error as NodeJS.ErrnoException).syscall !== undefined;
    throw explain(first ? (error as Error) : (cause ?? error), unpacked.entries);
  }
  if (kinds.size === 1) throw refusal("archive_empty", "The archive holds no files.");
  return unpacked;
}

async function unpackEntry(
  entry: Entry,
  target: string,
  kinds: Map<string, EntryKind>,
  limits: BuildLimits,
  unpacked: Unpacked,
): Promise<void> {
  const { name, size, mode, linkname } = entry.header;
  unpacked.entries++;
  if (unpacked.entries > limits.entries) {
    throw refusal("archive_too_many_entries", `The archive has more than ${limits.entries} entries.`);
  }
  const path = normalizePath(name);
  if (path.split("/").at(-1)!.startsWith("._")) {
    unpacked.skipped++;
    return;
  }
  const kind = kindOf(entry, name);
  checkEntry(path, kind, kinds);
  makeParents(path, target, kinds);
  const place = join(target, path);
  if (kind === "directory") {
    if (!kinds.has(path)) mkdirSync(place, { mode: 0o755 });
    kinds.set(path, kind);
    return;
  }
  if (kind === "file") {
    unpacked.bytes += size;
    if (unpacked.bytes > limits.unpackedBytes) throw tooLarge(limits);
  }
  // Later entries replace earlier ones of the same name, as tar does; a link itself, not what it leads to.
  if (kinds.has(path)) unlinkSync(place);
  kinds.delete(path);
  const file = { place, size, mode: mode & 0o100 ? 0o755 : 0o644 };
  if (kind === "file") await writeEntry(entry, file);
  else if (kind === "symlink") symlinkSync(checkLink(path, linkname ?? ""), place);
  else linkSync(join(target, linkedFile(path, linkname ?? "", kinds)), place);
  kinds.set(path, kind === "link" ? "file" : kind);
}

function kindOf({ header }: Entry, name: string): EntryKind | "link" {
  const type = header.type as (typeof header)["type"] | null; // of an unknown kind
  const pax = header.pax ?? {};
  const sparse = Object.keys(pax).some((key) => key.startsWith("GNU.sparse."));
  if (sparse)
    throw refusal(
      "archive_special_file",
      `${show(name)} is packed as a sparse file; pack it without --sparse.`,
    );
  if (type === "file" || type === "contiguous-file") return "file";
  if (type === "directory" || type === "symlink" || type === "link") return type;
  const what = type?.replace("-", " ") ?? "of an unknown kind";
  throw refusal(
    "archive_special_file",
    `${show(name)} is no file, folder or link (${what}); leave it out of the archive.`,
  );
}

/** A hard link may lead to a file that came before it in the same archive, to nothing else. */
function linkedFile(path: string, linkname: string, kinds: ReadonlyMap<string, EntryKind>): string {
  const linked = normalizePath(linkname);
  checkEntry(linked, "file", kinds);
  if (kinds.get(linked) === "file" && linked !== path) return linked;
  throw refusal(
    "archive_link_escapes",
    `${show(path)} is a hard link to ${show(linkname)}, which is no file of the archive.`,
  );
}

function makeParents(path: string, target: string, kinds: Map<string, EntryKind>): void {
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
    const parent = path.slice(0, at);
    if (kinds.has(parent)) continue;
    mkdirSync(join(target, parent), { mode: 0o755 });
    kinds.set(parent, "directory");
  }
}

/** `wx` and the check of the parents: nothing that is there is ever written through. */
async function writeEntry(
  entry: Entry,
  { place, size, mode }: { place: string; size: number; mode: number },
): Promise<void> {
  if (size <= smallBytes) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry as AsyncIterable<Buffer>) chunks.push(chunk);
    writeFileSync(place, Buffer.concat(chunks), { flag: "wx", mode });
    return;
  }
  const file = await open(place, "wx", mode);
  try {
    await file.writeFile(entry as AsyncIterable<Buffer>);
  } finally {
    await file.close();
  }
}

function countBytes(limit: number, refuse: () => Error): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > limit) done(refuse());
      else done(null, chunk);
    },
  });
}

/** Turns what the decoders say into a sentence for users. */
function explain(error: Error & { code?: string }, entries: number): Error {
  if (error instanceof BuildFailure) return error;
  const { code, message } = error;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new BuildFailure(
      "source",
      "disk_full",
      "There is no room left on the disk to unpack the archive.",
    );
  }
  if (code === "ENAMETOOLONG")
    return refusal("archive_path_invalid", "The archive holds a path that is too long.");
  if (code === "EEXIST") {
    return refusal("archive_path_conflict", "The archive holds two names that are the same on this machine.");
  }
  if (code === "Z_DATA_ERROR" && message === "incorrect header check") {
    return refusal("archive_not_gzip", "The upload is no gzip file; pack it with tar -czf.");
  }
  const cut = code === "Z_BUF_ERROR" || message === "Unexpected end of data";
  if (cut && (entries > 0 || code === "Z_BUF_ERROR")) {
    return refusal("archive_truncated", "The archive is cut short; upload it again.");
  }
  if (message === "Header exceeds max size") {
    return refusal("archive_path_invalid", "The archive holds a header that is too large.");
  }
  if (cut || message.startsWith("Invalid tar header") || message === "Invalid header") {
    return entries === 0
      ? refusal("archive_not_tar", "The upload is gzipped but no tarball; pack it with tar -czf.")
      : refusal("archive_truncated", "The archive is damaged; upload it again.");
  }
  if (code?.startsWith("Z_")) return refusal("archive_truncated", "The archive is damaged; upload it again.");
  return error;
}

function tooLarge(limits: BuildLimits): BuildFailure {
  const size = `${Math.floor(limits.unpackedBytes / 1024 ** 2)} MiB`;
  return refusal("archive_too_large", `The archive holds more than ${size} when unpacked.`);
}

function refusal(code: BuildFailure["code"], message: string): BuildFailure {
  return new BuildFailure("source", code, message);
}

function show(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
}
