import { closeSync, ftruncateSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import type { LogFilter, LogLine, LogPage, LogStream } from "../../port.ts";
import { invalidCursor } from "../../refusals.ts";
import {
  cutTornLine,
  type Entry,
  listSegments,
  type OutputLine,
  readNewer,
  readOlder,
  segmentPath,
  writeEntry,
} from "./log-segments.ts";

export type Filter = LogFilter & { instance?: string };

export type LogStore = {
  /** Throws, and stores none of them, when the disk is full. */
  append(lines: OutputLine[]): void;
  page(filter: Filter, limit: number, cursor?: string): Promise<LogPage>;
  follow(filter: Filter & { tail?: number; after?: string }, signal: AbortSignal): AsyncIterable<LogLine>;
  /** Returns the offsets up to which an instance's output files have been stored. */
  collectedOffsets(instance: string): Promise<Record<LogStream, number>>;
  close(): void;
};

/** Returns the name of an instance, from which a line's version and replica are read. */
export function instanceName(version: number, replica: number, suffix: string): string {
  return `${version}.${replica}.${suffix}`;
}

/**
 * Keeps a service's output, oldest first, in numbered segment files of which the oldest are deleted. Appending is
 * synchronous: lines are written before the offset that they carry is used.
 */
export function openLogStore(folder: string, sizes = { segmentBytes: 2 * 1024 ** 2, segments: 4 }): LogStore {
  mkdirSync(folder, { recursive: true });
  const starts = listSegments(folder);
  let start = starts.at(-1) ?? 0;
  if (starts.length === 0) starts.push(0);
  const newest = cutTornLine(segmentPath(folder, start));
  let end = start + newest.bytes;
  let lastTime = newest.lastTime;
  let file = openSync(segmentPath(folder, start), "a");
  let closed = false;
  const waiting = new Set<() => void>();
  const wake = () => {
    for (const resume of waiting) resume();
    waiting.clear();
  };

  function rotate(): void {
    const next = openSync(segmentPath(folder, end), "a"); // first: on a full disk nothing changes
    closeSync(file);
    [start, file] = [end, next];
    starts.push(start);
    while (starts.length > sizes.segments) rmSync(segmentPath(folder, starts.shift()!), { force: true });
  }

  /** Writes all or, on a full disk, nothing. */
  function write(bytes: Buffer): void {
    try {
      for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
    } catch (error) {
      ftruncateSync(file, end - start);
      throw error;
    }
    end += bytes.length;
  }

  /** Yields the entries after `offset`, oldest first, or those before it, newest first. */
  async function* read(offset: number, direction: "newer" | "older"): AsyncGenerator<Entry> {
    const older = direction === "older";
    for (let at = offset; older ? at > starts[0]! : at < end; ) {
      const segment = starts.findLast((one) => (older ? one < at : one <= at)) ?? starts[0]!;
      const next = starts[starts.indexOf(segment) + 1] ?? end;
      const bounds = older ? { from: segment, to: at } : { from: Math.max(at, segment), to: next };
      yield* older ? readOlder(folder, segment, bounds) : readNewer(folder, segment, bounds);
      at = older ? segment : next;
    }
  }

  async function page(filter: Filter, limit: number, cursor?: string): Promise<LogPage> {
    const lines: LogLine[] = [];
    for await (const entry of read(Math.min(end, readCursor(cursor) ?? end), "older")) {
      if (filter.since && entry.time < filter.since.getTime()) break;
      if (!matches(entry, filter)) continue;
      if (lines.length === limit) return { lines, nextCursor: writeCursor(entry.to) };
      lines.push(toLine(entry));
    }
    return { lines };
  }

  async function* follow(
    filter: Filter & { tail?: number; after?: string },
    signal: AbortSignal,
  ): AsyncGenerator<LogLine> {
    let at = Math.min(end, readCursor(filter.after) ?? end);
    if (filter.after === undefined && (filter.tail ?? 0) > 0) {
      const newest = await page(filter, filter.tail!);
      yield* newest.lines.reverse();
    }
    signal.addEventListener("abort", wake);
    try {
      while (!closed && !signal.aborted) {
        const until = end;
        for await (const entry of read(at, "newer")) {
          if (signal.aborted) return;
          at = entry.to;
          if (matches(entry, filter)) yield toLine(entry);
        }
        at = Math.max(at, until);
        if (at < end || closed || signal.aborted) continue;
        await new Promise<void>((resolve) => waiting.add(resolve));
      }
    } finally {
      signal.removeEventListener("abort", wake);
    }
  }

  return {
    page,
    follow,
    append(lines) {
      if (closed || lines.length === 0) return;
      const text = lines.map((line) => {
        lastTime = Math.max(lastTime, line.time); // times never go back: `since` relies on that
        return writeEntry({ ...line, time: lastTime });
      });
      const bytes = Buffer.from(text.join(""));
      if (end > start && end - start + bytes.length > sizes.segmentBytes) rotate();
      write(bytes);
      wake();
    },
    async collectedOffsets(instance) {
      const taken: Partial<Record<LogStream, number>> = {};
      for await (const entry of read(end, "older")) {
        if (entry.instance === instance) taken[entry.stream] ??= entry.end;
        if (taken.stdout !== undefined && taken.stderr !== undefined) break;
      }
      return { stdout: taken.stdout ?? 0, stderr: taken.stderr ?? 0 };
    },
    close() {
      if (closed) return;
      closed = true;
      closeSync(file);
      wake();
    },
  };
}

function matches(entry: Entry, filter: Filter): boolean {
  return (
    (filter.stream === undefined || entry.stream === filter.stream) &&
    (filter.version === undefined || Number(entry.instance.split(".")[0]) === filter.version) &&
    (filter.instance === undefined || entry.instance === filter.instance) &&
    (filter.since === undefined || entry.time >= filter.since.getTime())
  );
}

function toLine(entry: Entry): LogLine {
  const [version = "0", replica = "0"] = entry.instance.split(".");
  const timestamp = new Date(entry.time).toISOString();
  const { message, stream } = entry;
  return { timestamp, message, stream, replica, version: Number(version), cursor: writeCursor(entry.to) };
}

function writeCursor(offset: number): string {
  return `log:${offset}`;
}

function readCursor(cursor: string | undefined): number | undefined {
  if (cursor === undefined) return undefined;
  const match = /^log:(\d{1,15})$/.exec(cursor);
  if (!match) throw invalidCursor();
  return Number(match[1]);
}
