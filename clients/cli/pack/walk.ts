import type { Stats } from "node:fs";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { isIgnored, parseRules, type Rules } from "../../pack/ignore-rules.ts";
import { type Entry, pointsOutside } from "../../pack/tar.ts";
import { refused } from "../failure.ts";

export type PackedEntry =
  | Exclude<Entry, { kind: "file" }>
  | (Extract<Entry, { kind: "file" }> & { from: string });

export type Listing = {
  /** Absolute path of the packed folder. */
  folder: string;
  /** In the order in which they are packed: sorted by their bytes. */
  entries: PackedEntry[];
  /** The file name whose rules were used, if there was one. */
  rules: ".berthignore" | ".gitignore" | undefined;
  /** What cannot be in an archive: sockets, devices, pipes. */
  leftOut: string[];
};

export type Patterns = { include: string[]; exclude: string[] };

const BERTHIGNORE = ".berthignore";
const GITIGNORE = ".gitignore";

/**
 * Lists what of a folder is packed (docs/cli.md#what-is-packed): all that is not ignored by the patterns of the command
 * line, else by `.berthignore`, else by `.gitignore`; never `.git`.
 */
export async function listFolder(path: string, { include, exclude }: Patterns): Promise<Listing> {
  const folder = resolve(path);
  const found = await lstat(folder).catch(() => undefined);
  if (!found) throw refused(`${path} does not exist.`, "berth up FOLDER");
  if (!(await readdirOf(folder))) throw refused(`${path} is no folder.`, "berth up FOLDER");
  const names = await readdir(folder);
  const file = names.includes(BERTHIGNORE) ? BERTHIGNORE : GITIGNORE;
  const outer = file === GITIGNORE ? await rulesAbove(folder) : { files: [], prefix: [] };
  const flags = parseRules([...exclude, ...include.map((pattern) => `!${pattern}`)].join("\n"), outer.prefix);
  const listing: Listing = { folder, entries: [], rules: undefined, leftOut: [] };
  if (outer.files.length > 0) listing.rules = GITIGNORE;
  await walk({ listing, file, flags, prefix: outer.prefix }, [], outer.files);
  return listing;
}

type Walk = { listing: Listing; file: typeof BERTHIGNORE | typeof GITIGNORE; flags: Rules; prefix: string[] };

async function walk(all: Walk, parts: string[], above: Rules[]): Promise<void> {
  const { listing, file, flags, prefix } = all;
  const here = join(listing.folder, ...parts);
  const names = (await readdir(here)).toSorted(byBytes);
  let files = above;
  if (names.includes(file)) {
    const text = await textOf(join(here, file));
    if (text !== undefined) {
      files = [...above, parseRules(text, [...prefix, ...parts])];
      listing.rules = file;
    }
  }
  for (const name of names) {
    if (name === ".git") continue;
    const own = [...parts, name];
    const path = own.join("/");
    const from = join(here, name);
    const about = await lstat(from).catch(() => {
      throw refused(`${path} cannot be read. Its name may not be UTF-8.`, "berth up --exclude PATTERN");
    });
    if (isIgnored([...files, flags], [...prefix, ...own], about.isDirectory())) continue;
    const entry = await entryOf(path, from, about);
    if (!entry) {
      listing.leftOut.push(path);
      continue;
    }
    listing.entries.push(entry);
    if (entry.kind === "folder") await walk(all, own, files);
  }
}

async function entryOf(path: string, from: string, about: Stats): Promise<PackedEntry | undefined> {
  if (about.isSymbolicLink())
    return { kind: "link", path, target: checkedTarget(path, await readlink(from)) };
  if (about.isDirectory()) return { kind: "folder", path };
  if (!about.isFile()) return undefined;
  return { kind: "file", path, from, size: about.size, executable: (about.mode & 0o100) !== 0 };
}

/** A link that points outside would be refused by the build, after the upload. */
function checkedTarget(path: string, target: string): string {
  if (pointsOutside(path, target))
    throw refused(`The link ${path} points outside of the folder: ${target}.`, `berth up --exclude /${path}`);
  return target;
}

/** Returns the rules of the folders above that belong to the same git repository, and the way from its root. */
async function rulesAbove(folder: string): Promise<{ files: Rules[]; prefix: string[] }> {
  const root = await repositoryOf(folder);
  if (root === undefined || root === folder) return { files: [], prefix: [] };
  const prefix: string[] = [];
  for (let at = folder; at !== root; at = dirname(at)) prefix.unshift(basename(at));
  const files: Rules[] = [];
  for (let depth = 0; depth < prefix.length; depth++) {
    const base = prefix.slice(0, depth);
    const text = await textOf(join(root, ...base, GITIGNORE));
    if (text !== undefined) files.push(parseRules(text, base));
  }
  return { files, prefix };
}

async function repositoryOf(folder: string): Promise<string | undefined> {
  for (let at = folder; ; at = dirname(at)) {
    if (await lstat(join(at, ".git")).catch(() => undefined)) return at;
    if (dirname(at) === at) return undefined;
  }
}

/** git reads no ignore file through a link. */
async function textOf(file: string): Promise<string | undefined> {
  const about = await lstat(file).catch(() => undefined);
  return about?.isFile() ? readFile(file, "utf8") : undefined;
}

const readdirOf = (folder: string) => readdir(folder).catch(() => undefined);

/** The same order everywhere, whatever the language of the machine. */
const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Returns the folders that take most, with their bytes and files: what to leave out when it is too much. */
export function largestFolders(
  { entries }: Listing,
  most = 5,
): { path: string; size: number; files: number }[] {
  const folders = new Map<string, { size: number; files: number }>();
  for (const entry of entries) {
    if (entry.kind !== "file") continue;
    const parts = entry.path.split("/");
    // Two levels name what one can act on; each file counts in one row.
    const path = parts.length === 1 ? "." : parts.slice(0, Math.min(2, parts.length - 1)).join("/");
    const folder = folders.get(path) ?? { size: 0, files: 0 };
    folder.size += entry.size;
    folder.files++;
    folders.set(path, folder);
  }
  const all = [...folders].map(([path, folder]) => ({ path, ...folder }));
  return all.toSorted((a, b) => b.size - a.size || b.files - a.files).slice(0, most);
}
