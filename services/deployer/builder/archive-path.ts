import { BuildFailure, type BuildFailureCode } from "./port.ts";

export type EntryKind = "file" | "directory" | "symlink";

/**
 * The path of an archive's entry, relative to its root: no `.` and empty segments, "" for the root itself.
 * Refuses absolute paths, every `..`, and what no file system takes.
 */
export function normalizePath(name: string): string {
  if (name.startsWith("/"))
    refuse(
      "archive_absolute_path",
      name,
      "is an absolute path; pack the working directory with tar -C DIR .",
    );
  if (name.includes("\0") || name.includes("\ufffd"))
    refuse("archive_path_invalid", name, "is no valid UTF-8 path.");
  const segments = name.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes(".."))
    refuse("archive_path_escapes", name, "contains “..”, which could lead out of the archive.");
  const tooLong =
    segments.some((segment) => Buffer.byteLength(segment) > 255) || Buffer.byteLength(name) > 4000;
  if (tooLong) refuse("archive_path_invalid", name, "is too long.");
  return segments.join("/");
}

/** Refuses an entry that would be written through a link or a file, or that cannot replace what is there. */
export function checkEntry(
  path: string,
  kind: EntryKind | "link",
  known: ReadonlyMap<string, EntryKind>,
): void {
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
    const parent = known.get(path.slice(0, at));
    if (parent === "symlink") refuse("archive_through_link", path, "lies behind a link of the archive.");
    if (parent === "file")
      refuse("archive_path_conflict", path, "lies below something that is a file of the archive.");
  }
  const before = known.get(path);
  if (before === undefined || (before === "directory") === (kind === "directory")) return;
  if (before === "symlink")
    refuse("archive_through_link", path, "is a link of the archive, and a folder again.");
  refuse("archive_path_conflict", path, "is both a folder and something else in the archive.");
}

/**
 * The target of a symbolic link at `path`, when it stays inside. Only leading `..` can be followed without
 * the file system: behind a name that may itself be a link they lead anywhere, and are refused.
 */
export function checkLink(path: string, target: string): string {
  const segments = target.split("/").filter((segment) => segment !== "" && segment !== ".");
  const up = segments.findIndex((segment) => segment !== "..");
  const leading = up < 0 ? segments.length : up;
  const depth = path.split("/").length - 1;
  const inside = target !== "" && !target.startsWith("/") && !target.includes("\0") && leading <= depth;
  if (inside && !segments.slice(leading).includes("..")) return target;
  return refuse(
    "archive_link_escapes",
    path,
    `links to ${JSON.stringify(target)}, outside of the archive; leave it out.`,
  );
}

function refuse(code: BuildFailureCode, name: string, what: string): never {
  const shown = JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
  throw new BuildFailure("source", code, `The entry ${shown} ${what}`);
}
