/** What an archive has of a file, a folder or a link. `path` has `/` between its parts. */
export type Entry =
  | { kind: "file"; path: string; size: number; executable: boolean }
  | { kind: "folder"; path: string }
  | { kind: "link"; path: string; target: string };

type Bytes = Uint8Array<ArrayBuffer>;

const UTF8 = new TextEncoder();
const BLOCK = 512;
/** A time that every program takes, ZIP's too: some refuse 1970. npm's packages have the same. */
const MTIME = 499_162_500;
const NAME_BYTES = 100;
/** What a size of eleven octal digits can say. */
const MAX_OCTAL = 0o77777777777;

const TYPE = { file: "0", link: "2", folder: "5", pax: "x" } as const;
type Header = { name: string; type: string; mode: number; size: number; link?: string };

/** Returns the blocks before an entry's bytes: POSIX pax, with a header of its own where a name is long or not ASCII. */
export function headerOf(entry: Entry): Bytes {
  const name = entry.kind === "folder" ? `${entry.path}/` : entry.path;
  const size = entry.kind === "file" ? entry.size : 0;
  const link = entry.kind === "link" ? entry.target : "";
  const more: [string, string][] = [];
  if (!fits(name)) more.push(["path", name]);
  if (!fits(link)) more.push(["linkpath", link]);
  if (size > MAX_OCTAL) more.push(["size", String(size)]);
  const executable = entry.kind === "folder" || (entry.kind === "file" && entry.executable);
  const mode = entry.kind === "link" ? 0o777 : executable ? 0o755 : 0o644;
  const header = block({
    name: ascii(name),
    type: TYPE[entry.kind],
    mode,
    size: Math.min(size, MAX_OCTAL),
    link: ascii(link),
  });
  return more.length > 0 ? joined([...paxOf(more), header]) : header;
}

/** Returns what fills the last block of this many bytes. */
export const paddingOf = (size: number): Bytes => new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);

/** The end of an archive. */
export const END: Bytes = new Uint8Array(2 * BLOCK);

/** Whether a link points outside of the packed folder: builds refuse those. */
export function pointsOutside(path: string, target: string): boolean {
  let depth = path.split("/").length - 1;
  let outside = target.startsWith("/");
  for (const part of target.split("/")) {
    if (part === "..") depth--;
    else if (part !== "." && part !== "") depth++;
    if (depth < 0) outside = true;
  }
  return outside;
}

const fits = (text: string) => text.length <= NAME_BYTES && /^[\x20-\x7e]*$/.test(text);
/** What programs see that know no pax: never empty. */
const ascii = (text: string) => text.replaceAll(/[^\x20-\x7e]/g, "_").slice(0, NAME_BYTES);

function paxOf(members: [string, string][]): Bytes[] {
  const records = joined(members.map(([key, value]) => record(key, value)));
  const header = block({ name: "pax", type: TYPE.pax, mode: 0o644, size: records.length });
  return [header, records, paddingOf(records.length)];
}

/** A record begins with its own length, which counts the digits of the length too. */
function record(key: string, value: string): Bytes {
  const rest = UTF8.encode(` ${key}=${value}\n`);
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return joined([UTF8.encode(String(length)), rest]);
}

function joined(pieces: Bytes[]): Bytes {
  const all = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

function block({ name, type, mode, size, link = "" }: Header): Bytes {
  const header = new Uint8Array(BLOCK);
  const write = (text: string, at: number) => UTF8.encodeInto(text, header.subarray(at));
  const octal = (value: number, at: number, length: number) =>
    write(`${value.toString(8).padStart(length - 1, "0")}\0`, at);
  write(name, 0);
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(MTIME, 136, 12);
  write("        ", 148);
  write(type, 156);
  write(link, 157);
  write("ustar\x0000", 257);
  let sum = 0;
  for (const byte of header) sum += byte;
  write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}
