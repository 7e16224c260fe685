import { BuildFailure, type BuildFailureCode } from "../port.ts";

/** Folders below each other that an archive may have: programs that walk them have limits of their own. */
const MAX_DEPTH = 100;

/**
 * The path of an archive's entry in segments, relative to its root: none is `.` or empty, the root itself has
 * none. Refuses absolute paths, every `..`, and what no file system takes.
 */
export function segmentsOf(name: string): string[] {
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
  if (segments.length > MAX_DEPTH)
    refuse("archive_path_invalid", name, `lies more than ${MAX_DEPTH} folders deep.`);
  return segments;
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
    `links to ${show(target)}, outside of the archive; leave it out.`,
  );
}

function refuse(code: BuildFailureCode, name: string, what: string): never {
  throw refuseEntry(code, name, what);
}

/** The refusal of an entry; `what` goes on after its name. */
export function refuseEntry(code: BuildFailureCode, name: string, what: string): BuildFailure {
  return new BuildFailure("source", code, `The entry ${show(name)} ${what}`);
}

/** A name as a sentence shows it. */
export function show(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
}
