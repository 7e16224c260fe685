import { closeSync, linkSync, mkdirSync, openSync, symlinkSync, unlinkSync, writeSync } from "node:fs";
import type { Header } from "tar-stream";
import { toMebibytes } from "../../../shared/mebibytes.ts";
import { type BuildFailure, sourceFailure } from "../../build-failure.ts";
import type { BuildLimits } from "../../port.ts";
import { checkLink, entryFailure, quoteName, splitPath } from "./path.ts";
import type { Unpacked } from "./unpack.ts";

/** What was written so far; a folder is the map of its content. */
type Folder = Map<string, Folder | "file" | "symlink">;

type EntryKind = "file" | "directory" | "symlink" | "link";

/** A file whose content arrives in pieces. */
export type OpenFile = { write(chunk: Buffer): void; close(): void };

/**
 * Writes the entries of an archive into the empty folder `target`, and never outside it. Every method throws
 * `BuildFailure`, or the error of the file system.
 */
export function createEntryWriter(target: string, limits: BuildLimits) {
  const inTarget = (path: string) => `${target}/${path}`;
  const unpacked: Unpacked = { entries: 0, bytes: 0, skipped: 0 };
  const root: Folder = new Map();
  let implied = 0;
  let hasNodeModules = false;

  const advice = () =>
    hasNodeModules
      ? " It contains node_modules: leave that out, because the build installs the packages itself."
      : "";

  function tooLarge(): BuildFailure {
    const size = toMebibytes(limits.unpackedBytes);
    return sourceFailure(
      "archive_too_large",
      `The archive contains more than ${size} when unpacked.${advice()}`,
    );
  }

  function checkCount(): void {
    if (unpacked.entries + implied <= limits.entries) return;
    const what = implied === 0 ? "entries" : "entries, including folders that are only implied";
    throw sourceFailure(
      "archive_too_many_entries",
      `The archive has more than ${limits.entries} ${what}.${advice()}`,
    );
  }

  /** Returns the folder of an entry. Missing folders are created, and count as entries. */
  function parentOf(segments: string[], path: string): Folder {
    let folder = root;
    for (let at = 0; at < segments.length - 1; at++) {
      const segment = segments[at]!;
      let next = folder.get(segment);
      if (next === "symlink")
        throw entryFailure("archive_through_link", path, "is reached through a link in the archive.");
      if (next === "file")
        throw entryFailure("archive_path_conflict", path, "is below a path that is a file in the archive.");
      if (!next) {
        implied++;
        checkCount();
        mkdirSync(inTarget(segments.slice(0, at + 1).join("/")), { mode: 0o755 });
        next = new Map();
        folder.set(copyText(segment), next);
      }
      folder = next;
    }
    return folder;
  }

  /** Returns the path that a hard link names: only a file that came before it in the same archive is allowed. */
  function linkedFile(path: string, linkname: string): string {
    const segments = splitPath(linkname);
    let found: Folder | "file" | "symlink" | undefined = root;
    for (const segment of segments) {
      if (found === "symlink")
        throw entryFailure("archive_through_link", linkname, "is reached through a link in the archive.");
      found = found instanceof Map ? found.get(segment) : undefined;
    }
    const linked = segments.join("/");
    if (found === "file" && linked !== path) return linked;
    throw sourceFailure(
      "archive_link_escapes",
      `${quoteName(path)} is a hard link to ${quoteName(linkname)}, which is not a file in the archive.`,
    );
  }

  return {
    unpacked,
    tooLarge,
    /** Writes an entry; returns the file that takes its content, if it has any. */
    add(header: Header): OpenFile | undefined {
      unpacked.entries++;
      checkCount();
      const segments = splitPath(header.name);
      const path = segments.join("/");
      const name = segments.at(-1) ?? "";
      if (name.startsWith("._")) {
        unpacked.skipped++;
        return undefined;
      }
      hasNodeModules ||= segments.includes("node_modules");
      const kind = kindOf(header);
      const folder = parentOf(segments, path);
      const before = name === "" ? root : folder.get(name);
      if (before !== undefined && before instanceof Map !== (kind === "directory"))
        throw before === "symlink"
          ? entryFailure("archive_through_link", path, "is both a link and a folder in the archive.")
          : entryFailure(
              "archive_path_conflict",
              path,
              "is both a folder and something else in the archive.",
            );
      if (kind === "directory") {
        if (before) return undefined;
        mkdirSync(inTarget(path), { mode: 0o755 });
        folder.set(copyText(name), new Map());
        return undefined;
      }
      if (kind === "file") {
        unpacked.bytes += header.size ?? 0;
        if (unpacked.bytes > limits.unpackedBytes) throw tooLarge();
      }
      // Like tar, a later entry replaces an earlier one of the same name; of a link, the link and not its target.
      if (before) {
        unlinkSync(inTarget(path));
        folder.delete(name);
      }
      const file =
        kind === "file" ? openFile(inTarget(path), (header.mode ?? 0) & 0o100 ? 0o755 : 0o644) : undefined;
      if (kind === "symlink") symlinkSync(checkLink(path, header.linkname ?? ""), inTarget(path));
      if (kind === "link") linkSync(inTarget(linkedFile(path, header.linkname ?? "")), inTarget(path));
      folder.set(copyText(name), kind === "symlink" ? "symlink" : "file");
      return file;
    },
    finish(): Unpacked {
      if (root.size === 0) throw sourceFailure("archive_empty", "The archive contains no files.");
      return unpacked;
    },
  };
}

/** `wx` and the check of the parents ensure that no existing file is written through a link. */
function openFile(path: string, mode: number): OpenFile {
  const file = openSync(path, "wx", mode);
  return {
    write(chunk) {
      for (let at = 0; at < chunk.length; ) at += writeSync(file, chunk, at);
    },
    close: () => closeSync(file),
  };
}

/** Copies a string: a slice would keep the whole string that it was cut from in memory. */
function copyText(part: string): string {
  return Buffer.from(part).toString();
}

function kindOf(header: Header): EntryKind {
  const type = header.type as Header["type"] | null; // null when the kind is unknown
  const pax = header.pax ?? {};
  const sparse = Object.keys(pax).some((key) => key.startsWith("GNU.sparse."));
  if (sparse)
    throw sourceFailure(
      "archive_special_file",
      `${quoteName(header.name)} is packed as a sparse file; pack it without --sparse.`,
    );
  if (type === "file" || type === "contiguous-file") return "file";
  if (type === "directory" || type === "symlink" || type === "link") return type;
  const what = type?.replace("-", " ") ?? "of an unknown kind";
  throw sourceFailure(
    "archive_special_file",
    `${quoteName(header.name)} is not a file, folder or link (${what}); leave it out of the archive.`,
  );
}
