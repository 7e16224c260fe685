import { closeSync, fstatSync, mkdirSync, openSync, readSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** decisions.md §4: what is kept of a build's output, and of one line. Bytes of UTF-8. */
export const buildLogBytes = 1024 * 1024;
export const buildLogLineBytes = 16 * 1024;

const mask = "***";
const cutMark = " … (line cut)";

/** Replaces each of the values wherever it occurs; the lines of a value with several count as values too. */
export function maskSecrets(values: readonly string[]): (text: string) => string {
  const parts = values
    .flatMap((value) => [value, ...value.split(/\r?\n/)])
    .filter((part) => part.trim() !== "");
  if (parts.length === 0) return (text) => text;
  // Longest first: a value that contains another must not leave its other half.
  const ordered = [...new Set(parts)].sort((one, other) => other.length - one.length);
  const pattern = new RegExp(
    ordered.map((part) => part.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|"),
    "g",
  );
  return (text) => text.replace(pattern, mask);
}

/** Cuts a line that is longer than `maxBytes`, between characters. */
export function clipLine(line: string, maxBytes: number = buildLogLineBytes): string {
  if (line.length * 3 <= maxBytes || Buffer.byteLength(line) <= maxBytes) return line;
  const bytes = Buffer.from(line);
  let end = maxBytes;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end) + cutMark;
}

/** The newest lines that fit into `maxBytes`, beginning at the start of a line. */
export function keepNewest(text: string, maxBytes: number = buildLogBytes): BuildLogSnapshot {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return { logs: text, truncated: false };
  const from = bytes.indexOf(10, bytes.length - maxBytes - 1) + 1;
  return { logs: from === 0 ? "" : bytes.toString("utf8", from), truncated: true };
}

export interface BuildLogSnapshot {
  logs: string;
  /** Older output was dropped. */
  truncated: boolean;
}

export interface BuildLog {
  /** Takes one line without its end; masks it, cuts it, and writes it before it returns. */
  append(line: string): void;
  snapshot(): BuildLogSnapshot;
  close(): void;
}

/**
 * A build's log in a file that any process can read while it grows. It never takes more than twice
 * `maxBytes`: a full file is set aside as `<path>.1`, in place of the one before.
 */
export function openBuildLog(
  path: string,
  options: { secrets?: readonly string[]; maxBytes?: number } = {},
): BuildLog {
  const { secrets = [], maxBytes = buildLogBytes } = options;
  const masked = maskSecrets(secrets);
  mkdirSync(dirname(path), { recursive: true });
  let file = openSync(path, "a", 0o600);
  let size = fstatSync(file).size;
  return {
    append(line) {
      const bytes = Buffer.from(`${clipLine(masked(line))}\n`);
      if (size > 0 && size + bytes.length > maxBytes) {
        closeSync(file);
        renameSync(path, `${path}.1`);
        file = openSync(path, "a", 0o600);
        size = 0;
      }
      size += writeSync(file, bytes);
    },
    snapshot: () => readBuildLog(path, maxBytes) ?? { logs: "", truncated: false },
    close: () => closeSync(file),
  };
}

/** What the log at `path` holds now, undefined when there is none. */
export function readBuildLog(path: string, maxBytes: number = buildLogBytes): BuildLogSnapshot | undefined {
  const newest = readFrom(path, 0);
  const before = readFrom(`${path}.1`, 0);
  if (!newest && !before) return undefined;
  // Set aside between the two reads: it is the same file.
  const parts = [before, newest].filter(
    (part) => part && !(part === newest && before?.inode === newest?.inode),
  );
  return keepNewest(Buffer.concat(parts.map((part) => part!.bytes)).toString(), maxBytes);
}

export function removeBuildLog(path: string): void {
  rmSync(path, { force: true });
  rmSync(`${path}.1`, { force: true });
}

/** Each complete line as it comes, beginning with what is kept; ends when `signal` aborts. */
export async function* followBuildLog(path: string, signal: AbortSignal): AsyncGenerator<string> {
  const before = readFrom(`${path}.1`, 0);
  let rest: Buffer = before?.bytes ?? Buffer.alloc(0);
  let inode: number | undefined;
  let at = 0;
  while (!signal.aborted) {
    const parts = [rest];
    let newest = readFrom(path, at);
    if (newest && newest.inode !== inode) {
      const aside = inode === undefined ? undefined : readFrom(`${path}.1`, at);
      if (aside && aside.inode === inode) parts.push(aside.bytes);
      newest = readFrom(path, 0);
      at = 0;
    }
    if (newest) {
      parts.push(newest.bytes);
      inode = newest.inode;
      at += newest.bytes.length;
    }
    const bytes = Buffer.concat(parts);
    const whole = bytes.lastIndexOf(10) + 1;
    rest = bytes.subarray(whole);
    if (whole > 0) yield* bytes.toString("utf8", 0, whole - 1).split("\n");
    await delay(200, undefined, { signal }).catch(() => {});
  }
}

function readFrom(path: string, from: number): { bytes: Buffer; inode: number } | undefined {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch {
    return undefined;
  }
  try {
    const { size, ino } = fstatSync(file);
    const bytes = Buffer.alloc(Math.max(0, size - from));
    return { bytes: bytes.subarray(0, readSync(file, bytes, 0, bytes.length, from)), inode: ino };
  } finally {
    closeSync(file);
  }
}
