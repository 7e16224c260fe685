import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { addAbortSignal, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { BuildFailure, type BuildFailureCode, type BuildLimits } from "../port.ts";
import { unpackHere } from "./unpack-here.ts";

export type Unpacked = {
  entries: number;
  bytes: number;
  /** Entries that only macOS needs (`._name`), left out. */
  skipped: number;
};

export type UnpackOptions = {
  limits: BuildLimits;
  /** `tar` where the tarball is not compressed. */
  format?: "tar.gz" | "tar";
  /** The folder by which the process is known, as a build's others are. */
  tmp: string;
};

/** How the process ended: its last words. */
export type UnpackEnd =
  | { unpacked: Unpacked }
  | { refused: { code: BuildFailureCode; message: string } }
  | { broken: { code?: string; message: string } };

const PROGRAM = join(import.meta.dirname, "unpack-process.ts");
/** 200 000 entries with names of 255 bytes need less. */
const NODE_FLAGS = ["--disable-warning=ExperimentalWarning", "--max-old-space-size=256"];
const MAX_OUTPUT = 64 * 1024;
/** What writing to a process that has ended gives. */
const ENDED_EARLY = new Set(["EPIPE", "ECONNRESET", "ERR_STREAM_PREMATURE_CLOSE"]);

/** An archive of at most so many bytes is unpacked in this process, which is sooner, up to these limits. */
const SMALL_BYTES = 256 * 1024;
const SMALL: BuildLimits = { entries: 1000, unpackedBytes: 16 * 1024 ** 2 };

/**
 * Unpacks a tarball into the empty folder `target`, never outside of it, whatever the archive says
 * (docs/deployments.md#unpacking). For what is not small a process of its own does it, with limited memory: this one
 * has all its turns. Keeps the executable bit and drops all other modes and owners.
 *
 * Throws `BuildFailure` with stage `source`, or the signal's reason, once nothing works on it; what was written
 * until then stays for the caller to remove.
 */
export async function unpackArchive(
  source: Readable,
  target: string,
  options: UnpackOptions,
  signal?: AbortSignal,
): Promise<Unpacked> {
  signal?.throwIfAborted();
  try {
    const small = await readSmall(signal ? addAbortSignal(signal, source) : source);
    if (!small) return await unpackApart(source, target, options, signal);
    return (
      (await unpackSmall(small, target, options, signal)) ??
      (await unpackApart(Readable.from(small), target, options, signal))
    );
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    source.destroy();
  }
}

/** All of a small archive; undefined for another, which is then read from its beginning again. */
async function readSmall(source: Readable): Promise<Buffer[] | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of source.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes <= SMALL_BYTES) continue;
    source.unshift(Buffer.concat(chunks));
    return undefined;
  }
  return chunks;
}

/** Undefined for an archive that is not small once it is unpacked; then the folder is empty again. */
async function unpackSmall(
  archive: Buffer[],
  target: string,
  { limits, format }: UnpackOptions,
  signal?: AbortSignal,
): Promise<Unpacked | undefined> {
  const lower = {
    entries: Math.min(limits.entries, SMALL.entries),
    unpackedBytes: Math.min(limits.unpackedBytes, SMALL.unpackedBytes),
  };
  try {
    return await unpackHere(Readable.from(archive), target, { limits: lower, format }, signal);
  } catch (error) {
    const { code } = error as BuildFailure;
    const tooMany = code === "archive_too_many_entries" && lower.entries < limits.entries;
    const tooLarge = code === "archive_too_large" && lower.unpackedBytes < limits.unpackedBytes;
    if (!tooMany && !tooLarge) throw error;
    for (const name of await readdir(target)) await rm(join(target, name), { recursive: true });
    return undefined;
  }
}

/** Unpacks in a process of its own. */
async function unpackApart(
  source: Readable,
  target: string,
  { tmp, ...options }: UnpackOptions,
  signal?: AbortSignal,
): Promise<Unpacked> {
  const child = spawn(process.execPath, [...NODE_FLAGS, PROGRAM, target, JSON.stringify(options)], {
    env: { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, TMPDIR: tmp },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const kill = () => void child.kill("SIGKILL");
  const ended = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  const [said, complained] = [endOf(child.stdout), endOf(child.stderr)];
  // The process may end before it has read everything: its last words tell why.
  const piped = pipeline(source, child.stdin, { signal }).then(
    () => undefined,
    (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") kill();
      return error;
    },
  );
  signal?.addEventListener("abort", kill, { once: true });
  try {
    const [code, killed] = await ended;
    source.destroy();
    const failed = await piped;
    signal?.throwIfAborted();
    if (failed && !ENDED_EARLY.has(failed.code ?? "")) throw failed;
    const unpacked = resultOf(said());
    if (!unpacked) throw failed ?? new Error(`unpacking ended with ${killed ?? code}: ${complained()}`);
    return unpacked;
  } finally {
    signal?.removeEventListener("abort", kill);
  }
}

/** Returns a function for the last that a stream has said. */
function endOf(stream: Readable): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    text = (text + chunk).slice(-MAX_OUTPUT);
  });
  return () => text;
}

/** Undefined when the process was ended before it could tell. */
function resultOf(said: string): Unpacked | undefined {
  if (!said.endsWith("\n")) return undefined;
  const end: UnpackEnd = JSON.parse(said);
  if ("unpacked" in end) return end.unpacked;
  if ("refused" in end) throw new BuildFailure("source", end.refused.code, end.refused.message);
  throw Object.assign(new Error(end.broken.message), { code: end.broken.code });
}
