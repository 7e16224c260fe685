import { closeSync, openSync, readdirSync, readFileSync, truncateSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { LogStream } from "../../port.ts";

/** A line of output and where it came from: enough to resume exactly there after a hard kill. */
export type OutputLine = {
  time: number;
  stream: LogStream;
  instance: string;
  /** Offset in the instance's own output file after this line. */
  end: number;
  message: string;
};

export type Entry = OutputLine & {
  /** Offsets in the whole log. */
  from: number;
  to: number;
};

const CHUNK_BYTES = 64 * 1024;

export function writeEntry(line: OutputLine): string {
  return `${line.time}\t${line.stream}\t${line.instance}\t${line.end}\t${line.message}\n`;
}

/** Returns undefined for part of a line: a cursor from outside may point anywhere. */
function parseEntry(text: string, from: number, to: number): Entry | undefined {
  const match = /^(\d{1,15})\t(stdout|stderr)\t([^\t]+)\t(\d+)\t(.*)$/s.exec(text);
  if (!match) return undefined;
  const [, time, stream, instance, end, message] = match as unknown as [
    string,
    string,
    LogStream,
    string,
    string,
    string,
  ];
  return { time: Number(time), stream, instance, end: Number(end), message, from, to };
}

/** Yields the entries between two offsets of the whole log, newest first. */
export async function* readOlder(folder: string, segment: number, bounds: { from: number; to: number }) {
  let rest = Buffer.alloc(0);
  for (let at = bounds.to; at > bounds.from; ) {
    const from = Math.max(bounds.from, at - CHUNK_BYTES);
    const bytes = Buffer.concat([await readBytes(folder, segment, from, at), rest]);
    const first = from === bounds.from ? 0 : bytes.indexOf(10) + 1;
    const entries =
      first === 0 && from !== bounds.from ? [] : [...splitEntries(bytes.subarray(first), from + first)];
    yield* entries.reverse();
    rest = first === 0 && from !== bounds.from ? bytes : bytes.subarray(0, first);
    at = from;
  }
}

/** Yields the entries between two offsets of the whole log, oldest first. */
export async function* readNewer(folder: string, segment: number, bounds: { from: number; to: number }) {
  let rest = Buffer.alloc(0);
  for (let at = bounds.from; at < bounds.to; ) {
    const to = Math.min(bounds.to, at + CHUNK_BYTES);
    const bytes = Buffer.concat([rest, await readBytes(folder, segment, at, to)]);
    const last = bytes.lastIndexOf(10) + 1;
    yield* splitEntries(bytes.subarray(0, last), to - bytes.length);
    rest = bytes.subarray(last);
    at = to;
  }
}

function* splitEntries(bytes: Buffer, offset: number): Generator<Entry> {
  for (let from = 0; from < bytes.length; ) {
    const to = bytes.indexOf(10, from) + 1;
    if (to === 0) return;
    const entry = parseEntry(bytes.toString("utf8", from, to - 1), offset + from, offset + to);
    if (entry) yield entry;
    from = to;
  }
}

/** Returns nothing when the segment has been deleted meanwhile. */
async function readBytes(folder: string, segment: number, from: number, to: number): Promise<Buffer> {
  const file = await open(segmentPath(folder, segment)).catch(() => undefined);
  if (file === undefined) return Buffer.alloc(0);
  try {
    const bytes = Buffer.alloc(to - from);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, from - segment);
    return bytes.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

export function segmentPath(folder: string, start: number): string {
  return join(folder, `${String(start).padStart(16, "0")}.log`);
}

export function listSegments(folder: string): number[] {
  const names = readdirSync(folder).filter((name) => /^\d{16}\.log$/.test(name));
  return names.sort().map((name) => Number(name.slice(0, 16)));
}

/** Cuts off a part of a line that a hard kill left. Returns the bytes that remain and the time of the newest line. */
export function cutTornLine(path: string): { bytes: number; lastTime: number } {
  closeSync(openSync(path, "a"));
  const bytes = readFileSync(path);
  const whole = bytes.lastIndexOf(10) + 1;
  if (whole < bytes.length) truncateSync(path, whole);
  const last = bytes.subarray(0, Math.max(0, whole - 1)).lastIndexOf(10) + 1;
  return { bytes: whole, lastTime: [...splitEntries(bytes.subarray(last, whole), last)][0]?.time ?? 0 };
}
