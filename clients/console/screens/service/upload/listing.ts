import { isIgnored, parseRules, type Rules } from "../../../../pack/ignore-rules.ts";
import { type Entry, pointsOutside } from "../../../../pack/tar.ts";
import { Complaint } from "../../../design/complaint.ts";
import { texts } from "../../../texts.ts";
import { type TreeFile, type TreeFolder, textOf } from "./tree.ts";

export type ListedFile = Extract<Entry, { kind: "file" }> & Pick<TreeFile, "open">;
export type Listed = Exclude<Entry, { kind: "file" }> | ListedFile;

export type Listing = {
  /** In the order in which they are packed. */
  entries: Listed[];
  files: number;
  bytes: number;
  /** The file name whose rules were used, if there was one. */
  rules: string | undefined;
  /** The paths that a rule leaves out. What is below them was not read. */
  leftOut: string[];
};

/** What a build unpacks at most (docs/deployments.md#unpacking). */
export const UNPACKED = { bytes: 2 * 1024 ** 3, entries: 200_000, levels: 100 };

/** Every build installs these itself, and those of this computer may not run there. An ignore file may include them. */
const ALWAYS = parseRules("node_modules/\n__MACOSX/\n.DS_Store", []);
/** One that is larger is none that somebody wrote. */
const MAX_RULES_BYTES = 1024 * 1024;

/** Lists what of a folder is packed, by the rules of `berth up` (docs/cli.md#what-is-packed). */
export async function listTree(root: TreeFolder, signal: AbortSignal): Promise<Listing> {
  const names = (await root.list()).map(({ name }) => name);
  const file = names.includes(".berthignore") ? ".berthignore" : ".gitignore";
  const listing: Listing = { entries: [], files: 0, bytes: 0, rules: undefined, leftOut: [] };
  await walk({ listing, file, signal }, root, [], [ALWAYS]);
  if (listing.files === 0) throw new Complaint(texts.upload.empty(listing.rules));
  return listing;
}

type Walk = { listing: Listing; file: string; signal: AbortSignal };

async function walk(all: Walk, folder: TreeFolder, parts: string[], above: Rules[]): Promise<void> {
  const { listing, file, signal } = all;
  signal.throwIfAborted();
  const nodes = (await folder.list()).sort((one, other) => (one.name < other.name ? -1 : 1));
  let files = above;
  const ignore = nodes.find(({ kind, name }) => kind === "file" && name === file);
  if (ignore?.kind === "file") {
    const text = await textOf(ignore.open, [...parts, file].join("/"), MAX_RULES_BYTES);
    files = [...above, parseRules(text, parts)];
    listing.rules = file;
  }
  for (const node of nodes) {
    const own = [...parts, node.name];
    const path = own.join("/");
    if (node.name === ".git") continue;
    if (isIgnored(files, own, node.kind === "folder")) {
      listing.leftOut.push(path);
      continue;
    }
    const { bytes, entries, levels } = UNPACKED;
    if (own.length > levels || listing.entries.length >= entries) throw new Complaint(texts.upload.tooMuch);
    if (node.kind === "folder") {
      listing.entries.push({ kind: "folder", path });
      await walk(all, node, own, files);
    } else if (node.kind === "link") {
      const target = await node.target();
      if (pointsOutside(path, target)) throw new Complaint(texts.upload.outside(path));
      listing.entries.push({ kind: "link", path, target });
    } else {
      listing.files++;
      listing.bytes += node.size;
      if (listing.bytes > bytes) throw new Complaint(texts.upload.tooMuch);
      const { kind, size, executable, open } = node;
      listing.entries.push({ kind, path, size, executable, open });
    }
  }
}
