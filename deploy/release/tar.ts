import { open, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { extract, type Header, pack } from "tar-stream";

/** What an archive has at a path, which has no slash at either end. */
export type Entry = { path: string; mode: number; uid?: number } & (
  | { kind: "file"; data: Buffer; capability?: Buffer }
  | { kind: "folder" }
  /** `hardlink`: to a path of the same archive; else a symbolic link. */
  | { kind: "link"; target: string; hardlink?: true }
);

/** Reads an archive. Devices are left out: whatever runs an image makes its own. */
export async function readTar(archive: Readable): Promise<Entry[]> {
  const entries: Entry[] = [];
  const reader = extract();
  const read = async () => {
    for await (const part of reader) {
      const parts: Buffer[] = [];
      for await (const chunk of part) parts.push(chunk as Buffer);
      const entry = entryOf(part.header, Buffer.concat(parts));
      if (entry && entry.path !== "") entries.push(entry);
    }
  };
  const fed = pipeline(archive, reader as unknown as Writable);
  await Promise.all([fed, read()]);
  return entries;
}

function entryOf({ name, type, mode = 0o644, linkname }: Header, data: Buffer): Entry | undefined {
  const path = plain(name);
  if (type === "file") return { kind: "file", path, mode, data };
  if (type === "directory") return { kind: "folder", path, mode };
  if (type === "symlink") return { kind: "link", path, mode: 0o777, target: linkname! };
  if (type === "link") return { kind: "link", path, mode, target: plain(linkname!), hardlink: true };
  return undefined;
}

const plain = (path: string) =>
  path
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/");

/** Reads a folder, with modes that do not depend on the umask. `at` is its path in the archive. */
export async function readFolder(folder: string, at: string): Promise<Entry[]> {
  const found = await readdir(folder, { withFileTypes: true });
  const entries = await Promise.all(
    found.map(async (one): Promise<Entry[]> => {
      const from = join(folder, one.name);
      const path = `${at}/${one.name}`;
      if (one.isDirectory())
        return [{ kind: "folder", path, mode: 0o755 }, ...(await readFolder(from, path))];
      if (one.isSymbolicLink()) return [{ kind: "link", path, mode: 0o777, target: await readlink(from) }];
      const { data, executable } = await readPlain(from);
      return [{ kind: "file", path, mode: executable ? 0o755 : 0o644, data }];
    }),
  );
  return entries.flat();
}

async function readPlain(file: string) {
  const handle = await open(file);
  try {
    const { mode } = await handle.stat();
    return { data: await readFile(handle), executable: (mode & 0o100) !== 0 };
  } finally {
    await handle.close();
  }
}

/**
 * Returns the archive of entries as a stream: sorted by path, owned by root unless `uid` says otherwise, all of one
 * time. Folders that entries are in are added. Hard links come last, after what they lead to.
 */
export function writeTar(entries: Entry[], mtime: Date): Readable {
  const all = new Map<string, Entry>();
  for (const { path } of entries)
    for (let at = path.indexOf("/"); at > 0; at = path.indexOf("/", at + 1))
      all.set(path.slice(0, at), { kind: "folder", path: path.slice(0, at), mode: 0o755 });
  for (const entry of entries) all.set(entry.path, entry);
  const isLast = (entry: Entry) => entry.kind === "link" && entry.hardlink === true;
  const sorted = [...all.values()].sort(
    (a, b) =>
      Number(isLast(a)) - Number(isLast(b)) || Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)),
  );
  const archive = pack();
  const write = async () => {
    for (const entry of sorted) await writeEntry(archive, entry, mtime);
    archive.finalize();
  };
  write().catch((error) => archive.destroy(error));
  return archive as unknown as Readable;
}

function writeEntry(archive: ReturnType<typeof pack>, entry: Entry, mtime: Date): Promise<void> {
  const { path, mode, uid = 0 } = entry;
  const header = { mode, uid, gid: uid, mtime, uname: "", gname: "" };
  if (entry.kind === "folder") return put(archive, { ...header, name: `${path}/`, type: "directory" });
  if (entry.kind === "link")
    return put(archive, {
      ...header,
      name: path,
      type: entry.hardlink ? "link" : "symlink",
      linkname: entry.target,
    });
  const file = () => put(archive, { ...header, name: path, type: "file" }, entry.data);
  if (!entry.capability) return file();
  // tar-stream writes records as text, and a capability is not.
  (archive as unknown as Readable).push(
    paxBlocks(path, paxRecord("SCHILY.xattr.security.capability", entry.capability)),
  );
  return file();
}

function put(archive: ReturnType<typeof pack>, header: Partial<Header> & { name: string }, data?: Buffer) {
  return new Promise<void>((resolve, reject) => {
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    if (data) archive.entry(header, data, done);
    else archive.entry(header, done);
  });
}

/** Returns an entry with records about the next one: a header of ustar, and the records in whole blocks. */
function paxBlocks(path: string, records: Buffer): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  header.write(`PaxHeader/${path.split("/").at(-1)!.slice(0, 80)}`, 0);
  header.write(octal(0o644, 7) + octal(0, 7) + octal(0, 7) + octal(records.length, 11) + octal(0, 11), 100);
  // The checksum is that of a header with spaces in its place.
  header.write("        x", 148);
  header.write("ustar\u000000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(octal(sum, 6), 148);
  return Buffer.concat([header, records, Buffer.alloc((512 - (records.length % 512)) % 512)]);
}

/** A record is preceded by its length, which counts its own digits. */
function paxRecord(key: string, value: Buffer): Buffer {
  const rest = Buffer.concat([Buffer.from(` ${key}=`), value, Buffer.from("\n")]);
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length++;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}
