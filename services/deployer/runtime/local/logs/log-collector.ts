import { execFile } from "node:child_process";
import { closeSync, type FSWatcher, fstatSync, ftruncateSync, openSync, readSync, watch } from "node:fs";
import { join } from "node:path";
import type { LogStream } from "../../port.ts";
import type { OutputLine } from "./log-segments.ts";
import type { LogStore } from "./log-store.ts";

/** Longer lines are split, so that nothing is lost. */
const LINE_BYTES = 16 * 1024;
const READ_BYTES = 256 * 1024;
/** How much output that nobody has collected is kept; the newest. */
const BACKLOG_BYTES = 8 * 1024 ** 2;

export type Collector = {
  /** Collects everything written so far. `last`, after the instance has ended: also a line without a newline. */
  collect(last: boolean): void;
  close(): void;
};

export function outputPath(folder: string, stream: LogStream): string {
  return join(folder, stream);
}

/**
 * Copies what an instance writes to its two output files into the service's log, with the time of the write. An instance
 * writes to plain files, not to a pipe of ours, so that it runs on without this process.
 */
export function collectOutput(
  folder: string,
  instance: string,
  store: LogStore,
  collected: Record<LogStream, number>,
): Collector {
  const sources = [
    openSource(outputPath(folder, "stdout"), "stdout", instance, collected.stdout),
    openSource(outputPath(folder, "stderr"), "stderr", instance, collected.stderr),
  ];
  let soon: NodeJS.Timeout | undefined;
  const collect = (last: boolean) => {
    clearTimeout(soon);
    soon = undefined;
    for (const source of sources) for (let more = true; more; ) more = source.take(store, last) && last;
    if (sources.some((source) => source.behind())) later();
  };
  const later = () => {
    soon ??= setTimeout(collect, 10, false);
    soon.unref();
  };
  // The watcher is for speed, the interval for truth: a system may run out of watchers.
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(folder, { persistent: false }, later).on("error", () => watcher?.close());
  } catch {}
  const clock = setInterval(collect, watcher ? 2000 : 250, false);
  clock.unref();
  later();
  return {
    collect,
    close() {
      clearTimeout(soon);
      clearInterval(clock);
      watcher?.close();
      for (const source of sources) source.close();
    },
  };
}

function openSource(path: string, stream: LogStream, instance: string, collected: number) {
  const file = openSync(path, "a+");
  let at = Math.min(collected, fstatSync(file).size);
  let freed = 0;
  let closed = false;
  let stuck = false;

  function behind(): boolean {
    return !stuck && fstatSync(file).size - at >= READ_BYTES;
  }

  /** Copies one portion to the store; returns whether there was one. */
  function take(store: LogStore, last: boolean): boolean {
    const { size, mtimeMs } = fstatSync(file);
    if (size < at) at = 0; // the app emptied its own output
    if (size - at > BACKLOG_BYTES) at = size - BACKLOG_BYTES;
    const bytes = Buffer.alloc(Math.min(READ_BYTES, size - at));
    const length = readSync(file, bytes, 0, bytes.length, at);
    const final = last && at + length >= size;
    const lines = splitOutput(bytes.subarray(0, length), final);
    const time = Math.round(Math.min(Date.now(), mtimeMs));
    try {
      store.append(
        lines.map(({ message, to }): OutputLine => ({ time, stream, instance, end: at + to, message })),
      );
      stuck = false;
    } catch {
      stuck = true; // The disk is full: the lines stay where they are, and the interval tries again.
      return false;
    }
    at += lines.at(-1)?.to ?? 0;
    if (at - freed > BACKLOG_BYTES) free();
    return lines.length > 0;
  }

  /**
   * Frees the disk space of collected output without moving the rest. Where the system cannot do that, the file is
   * truncated; a line written at that moment is lost.
   */
  function free(): void {
    freed = at;
    execFile("fallocate", ["--punch-hole", "--offset", "0", "--length", String(at), path], (error) => {
      if (!error || closed || fstatSync(file).size !== at) return;
      ftruncateSync(file, 0);
      at = freed = 0;
    });
  }

  function close(): void {
    closed = true;
    closeSync(file);
  }

  return { behind, take, close };
}

/** Splits output into lines, each with the offset of its end. `final`: a rest without a newline is a line too. */
export function splitOutput(bytes: Buffer, final: boolean): { message: string; to: number }[] {
  const lines: { message: string; to: number }[] = [];
  for (let from = 0; from < bytes.length; ) {
    const newline = bytes.indexOf(10, from);
    const complete = newline >= 0 || final;
    const stop = newline >= 0 ? newline : bytes.length;
    if (stop - from > LINE_BYTES) {
      const cut = characterStart(bytes, from + LINE_BYTES);
      lines.push({ message: bytes.toString("utf8", from, cut), to: cut });
      from = cut;
      continue;
    }
    if (!complete) break;
    const to = newline >= 0 ? newline + 1 : stop;
    lines.push({ message: bytes.toString("utf8", from, stop).replace(/\r$/, ""), to });
    from = to;
  }
  return lines;
}

/** Returns the last position up to `at` that is not inside a UTF-8 character. */
function characterStart(bytes: Buffer, at: number): number {
  for (let back = 0; back < 4; back++) if ((bytes[at - back]! & 0xc0) !== 0x80) return at - back;
  return at;
}
