import { closeSync, linkSync, mkdirSync, openSync, symlinkSync, unlinkSync, writeSync } from "node:fs";
import type { Header } from "tar-stream";
import { BuildFailure, type BuildFailureCode, type BuildLimits } from "../port.ts";
import { checkLink, refuseEntry, segmentsOf, show } from "./archive-path.ts";
import type { Unpacked } from "./unpack.ts";

/** What was written so far: a folder is its content. */
type Folder = Map<string, Folder | "file" | "symlink">;

type EntryKind = "file" | "directory" | "symlink" | "link";

/** Takes a file's content in pieces. */
export type OpenFile = { write(chunk: Buffer): void; close(): void };

/**
 * Writes the entries of an archive into the empty folder `target`, and never outside of it. All of it
 * throws `BuildFailure`, or what the file system says.
 */
export function createWriter(target: string, limits: BuildLimits) {
  const placeOf = (path: string) => `${target}/${path}`;
  const unpacked: Unpacked = { entries: 0, bytes: 0, skipped: 0 };
  const root: Folder = new Map();
  let implied = 0;
  let hasNodeModules = false;

  const advice = () =>
    hasNodeModules ? " It holds node_modules: leave that out, a build installs the packages itself." : "";

  function tooLarge(): BuildFailure {
    const size = `${Math.floor(limits.unpackedBytes / 1024 ** 2)} MiB`;
    return refusal("archive_too_large", `The archive holds more than ${size} when unpacked.${advice()}`);
  }

  function checkCount(): void {
    if (unpacked.entries + implied <= limits.entries) return;
    const what = implied === 0 ? "entries" : "entries, with the folders that they lie in";
    throw refusal(
      "archive_too_many_entries",
      `The archive has more than ${limits.entries} ${what}.${advice()}`,
    );
  }

  /** The folder of an entry; those that are missing are made, and count as entries. */
  function parentOf(segments: string[], path: string): Folder {
    let folder = root;
    for (let at = 0; at < segments.length - 1; at++) {
      const segment = segments[at]!;
      let next = folder.get(segment);
      if (next === "symlink")
        throw refuseEntry("archive_through_link", path, "lies behind a link of the archive.");
      if (next === "file")
        throw refuseEntry(
          "archive_path_conflict",
          path,
          "lies below something that is a file of the archive.",
        );
      if (!next) {
        implied++;
        checkCount();
        mkdirSync(placeOf(segments.slice(0, at + 1).join("/")), { mode: 0o755 });
        next = new Map();
        folder.set(ownText(segment), next);
      }
      folder = next;
    }
    return folder;
  }

  /** A hard link may lead to a file that came before it in the same archive, to nothing else. */
  function linkedFile(path: string, linkname: string): string {
    const segments = segmentsOf(linkname);
    let found: Folder | "file" | "symlink" | undefined = root;
    for (const segment of segments) {
      if (found === "symlink")
        throw refuseEntry("archive_through_link", linkname, "lies behind a link of the archive.");
      found = found instanceof Map ? found.get(segment) : undefined;
    }
    const linked = segments.join("/");
    if (found === "file" && linked !== path) return linked;
    throw refusal(
      "archive_link_escapes",
      `${show(path)} is a hard link to ${show(linkname)}, which is no file of the archive.`,
    );
  }

  return {
    unpacked,
    tooLarge,
    /** Writes an entry; of one that has content, returns where that goes. */
    add(header: Header): OpenFile | undefined {
      unpacked.entries++;
      checkCount();
      const segments = segmentsOf(header.name);
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
          ? refuseEntry("archive_through_link", path, "is a link of the archive, and a folder again.")
          : refuseEntry("archive_path_conflict", path, "is both a folder and something else in the archive.");
      if (kind === "directory") {
        if (before) return undefined;
        mkdirSync(placeOf(path), { mode: 0o755 });
        folder.set(ownText(name), new Map());
        return undefined;
      }
      if (kind === "file") {
        unpacked.bytes += header.size ?? 0;
        if (unpacked.bytes > limits.unpackedBytes) throw tooLarge();
      }
      // Later entries replace earlier ones of the same name, as tar does; a link itself, not what it leads to.
      if (before) {
        unlinkSync(placeOf(path));
        folder.delete(name);
      }
      const file =
        kind === "file" ? openFile(placeOf(path), (header.mode ?? 0) & 0o100 ? 0o755 : 0o644) : undefined;
      if (kind === "symlink") symlinkSync(checkLink(path, header.linkname ?? ""), placeOf(path));
      if (kind === "link") linkSync(placeOf(linkedFile(path, header.linkname ?? "")), placeOf(path));
      folder.set(ownText(name), kind === "symlink" ? "symlink" : "file");
      return file;
    },
    finish(): Unpacked {
      if (root.size === 0) throw refusal("archive_empty", "The archive holds no files.");
      return unpacked;
    },
  };
}

/** `wx` and the check of the parents: nothing that is there is ever written through. */
function openFile(path: string, mode: number): OpenFile {
  const file = openSync(path, "wx", mode);
  return {
    write(chunk) {
      for (let at = 0; at < chunk.length; ) at += writeSync(file, chunk, at);
    },
    close: () => closeSync(file),
  };
}

/** A part of a text that keeps the whole from being freed, as a text of its own. */
function ownText(part: string): string {
  return Buffer.from(part).toString();
}

function kindOf(header: Header): EntryKind {
  const type = header.type as Header["type"] | null; // of an unknown kind
  const pax = header.pax ?? {};
  const sparse = Object.keys(pax).some((key) => key.startsWith("GNU.sparse."));
  if (sparse)
    throw refusal(
      "archive_special_file",
      `${show(header.name)} is packed as a sparse file; pack it without --sparse.`,
    );
  if (type === "file" || type === "contiguous-file") return "file";
  if (type === "directory" || type === "symlink" || type === "link") return type;
  const what = type?.replace("-", " ") ?? "of an unknown kind";
  throw refusal(
    "archive_special_file",
    `${show(header.name)} is no file, folder or link (${what}); leave it out of the archive.`,
  );
}

function refusal(code: BuildFailureCode, message: string): BuildFailure {
  return new BuildFailure("source", code, message);
}
