import type { PackedEntry } from "./walk.ts";

const BLOCK = 512;
/** A time that every program takes, ZIP's too: some refuse 1970. npm's packages have the same. */
const MTIME = 499_162_500;
const NAME_BYTES = 100;
/** What a size of eleven octal digits can say. */
const MAX_OCTAL = 0o77777777777;

const TYPE = { file: "0", link: "2", folder: "5", pax: "x" } as const;
type Header = { name: string; type: string; mode: number; size: number; link?: string };

/** Returns the blocks before an entry's bytes: POSIX pax, with a header of its own where a name is long or not ASCII. */
export function headerOf(entry: PackedEntry): Buffer {
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
  return more.length > 0 ? Buffer.concat([...paxOf(more), header]) : header;
}

/** Returns what fills the last block of this many bytes. */
export const paddingOf = (size: number) => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);

/** The end of an archive. */
export const END = Buffer.alloc(2 * BLOCK);

const fits = (text: string) => Buffer.byteLength(text) <= NAME_BYTES && /^[\x20-\x7e]*$/.test(text);
/** What programs see that know no pax: never empty. */
const ascii = (text: string) => text.replaceAll(/[^\x20-\x7e]/g, "_").slice(0, NAME_BYTES);

function paxOf(members: [string, string][]): Buffer[] {
  const records = Buffer.concat(members.map(([key, value]) => record(key, value)));
  const header = block({ name: "pax", type: TYPE.pax, mode: 0o644, size: records.length });
  return [header, records, paddingOf(records.length)];
}

/** A record begins with its own length, which counts the digits of the length too. */
function record(key: string, value: string): Buffer {
  const rest = Buffer.from(` ${key}=${value}\n`);
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}

function block({ name, type, mode, size, link = "" }: Header): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number) =>
    header.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at, "latin1");
  header.write(name, 0, "latin1");
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(MTIME, 136, 12);
  header.write("        ", 148, "latin1");
  header.write(type, 156, "latin1");
  header.write(link, 157, "latin1");
  header.write("ustar\x0000", 257, "latin1");
  let sum = 0;
  for (const byte of header) sum += byte;
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return header;
}
