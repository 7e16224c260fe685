import { Complaint } from "../../../design/complaint.ts";
import { texts } from "../../../texts.ts";
import { type TreeFile, type TreeFolder, type TreeLink, textOf, treeOf } from "./tree.ts";

const END_BYTES = 22;
const MAX_COMMENT = 65_535;
const [END, ENTRY, LOCAL] = [0x06054b50, 0x02014b50, 0x04034b50];
const [STORED, DEFLATED] = [0, 8];
const UNIX = 3;
const [TYPE, LINK] = [0o170000, 0o120000];
/** A number that is at its most stands for one of ZIP64, which archives of more than 4 GiB have. */
const [MOST_16, MOST_32] = [0xffff, 0xffffffff];
const MAX_LINK_BYTES = 4096;

/**
 * Returns the files of a ZIP archive as a folder; of one that has everything in one folder, that folder. Nothing is
 * unpacked before it is read. Throws for archives that are broken or encrypted.
 */
export async function ofZip(blob: Blob): Promise<TreeFolder> {
  const broken = () => new Complaint(texts.upload.badZip);
  const tailAt = Math.max(0, blob.size - END_BYTES - MAX_COMMENT);
  const tail = await viewOf(blob.slice(tailAt));
  let at = tail.byteLength - END_BYTES;
  while (at >= 0 && tail.getUint32(at, true) !== END) at--;
  if (at < 0) throw broken();
  const count = tail.getUint16(at + 10, true);
  const [size, offset] = [tail.getUint32(at + 12, true), tail.getUint32(at + 16, true)];
  if (count === MOST_16 || size === MOST_32 || offset === MOST_32) throw new Complaint(texts.upload.largeZip);
  const directory = await viewOf(blob.slice(offset, offset + size));
  try {
    return singleFolder(treeOf(entriesOf(blob, directory, count)));
  } catch (error) {
    throw error instanceof RangeError ? broken() : error;
  }
}

const viewOf = async (blob: Blob) => new DataView(await blob.arrayBuffer());

function entriesOf(blob: Blob, directory: DataView<ArrayBuffer>, count: number) {
  const entries: { path: string; node: TreeFile | TreeLink | undefined }[] = [];
  let at = 0;
  for (let n = 0; n < count; n++) {
    if (directory.getUint32(at, true) !== ENTRY) throw new Complaint(texts.upload.badZip);
    const u16 = (offset: number) => directory.getUint16(at + offset, true);
    const u32 = (offset: number) => directory.getUint32(at + offset, true);
    const path = new TextDecoder().decode(new Uint8Array(directory.buffer, at + 46, u16(28)));
    const mode = u16(4) >> 8 === UNIX ? u32(38) >>> 16 : undefined;
    const [method, compressed, size, from] = [u16(10), u32(20), u32(24), u32(42)];
    if ((u16(8) & 1) === 1) throw new Complaint(texts.upload.encryptedZip);
    if (method !== STORED && method !== DEFLATED) throw new Complaint(texts.upload.badZip);
    if (compressed === MOST_32 || size === MOST_32 || from === MOST_32)
      throw new Complaint(texts.upload.largeZip);
    const open = () => contentOf(blob, { method, compressed, from });
    const name = path.split("/").at(-1) ?? "";
    if (path.endsWith("/")) entries.push({ path, node: undefined });
    else if (mode !== undefined && (mode & TYPE) === LINK)
      entries.push({ path, node: { kind: "link", name, target: () => textOf(open, path, MAX_LINK_BYTES) } });
    else {
      const executable = mode === undefined || (mode & 0o111) !== 0;
      entries.push({ path, node: { kind: "file", name, size, executable, open } });
    }
    at += 46 + u16(28) + u16(30) + u16(32);
  }
  return entries;
}

type Place = { method: number; compressed: number; from: number };

async function contentOf(
  blob: Blob,
  { method, compressed, from }: Place,
): Promise<ReadableStream<Uint8Array>> {
  const head = await viewOf(blob.slice(from, from + 30));
  if (head.byteLength < 30 || head.getUint32(0, true) !== LOCAL) throw new Complaint(texts.upload.badZip);
  const start = from + 30 + head.getUint16(26, true) + head.getUint16(28, true);
  const content = blob.slice(start, start + compressed).stream();
  return method === STORED ? content : content.pipeThrough(new DecompressionStream("deflate-raw"));
}

/** As in the archives of a git host, where everything is in a folder that is named after the repository. */
async function singleFolder(root: TreeFolder): Promise<TreeFolder> {
  const nodes = (await root.list()).filter(({ name }) => name !== "__MACOSX");
  const [only] = nodes;
  return nodes.length === 1 && only?.kind === "folder" ? only : root;
}
