import { type BuildFailure, type BuildFailureCode, sourceFailure } from "../../build-failure.ts";

/** How deep folders may be nested: the programs that walk them have limits of their own. */
const MAX_DEPTH = 100;

/**
 * Splits the path of an archive's entry into segments, relative to its root; none is `.` or empty, and the root itself
 * has none. Throws for absolute paths, every `..`, and paths that no file system accepts.
 */
export function splitPath(name: string): string[] {
  if (name.startsWith("/"))
    refuse(
      "archive_absolute_path",
      name,
      "is an absolute path; pack the working directory with tar -C DIR .",
    );
  if (name.includes("\0") || name.includes("\ufffd"))
    refuse("archive_path_invalid", name, "is not a valid UTF-8 path.");
  const segments = name.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes(".."))
    refuse("archive_path_escapes", name, "contains “..”, which could lead out of the archive.");
  const tooLong =
    segments.some((segment) => Buffer.byteLength(segment) > 255) || Buffer.byteLength(name) > 4000;
  if (tooLong) refuse("archive_path_invalid", name, "is too long.");
  if (segments.length > MAX_DEPTH)
    refuse("archive_path_invalid", name, `is nested more than ${MAX_DEPTH} folders deep.`);
  return segments;
}

/**
 * Returns the target of a symbolic link at `path`; throws when it leads outside the archive. Only a leading `..` can be
 * followed without the file system: after a name that may itself be a link, `..` can lead anywhere and is refused.
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
    `links to ${quoteName(target)}, outside the archive; leave it out.`,
  );
}

function refuse(code: BuildFailureCode, name: string, what: string): never {
  throw entryFailure(code, name, what);
}

/** Returns the failure of an entry; `what` continues the sentence after its name. */
export function entryFailure(code: BuildFailureCode, name: string, what: string): BuildFailure {
  return sourceFailure(code, `The entry ${quoteName(name)} ${what}`);
}

/** Returns a name as a sentence shows it: quoted, and cut after 200 characters. */
export function quoteName(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
}
