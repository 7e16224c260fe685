import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { addAbortSignal, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type BuildFailure, type BuildFailureCode, sourceFailure } from "../../build-failure.ts";
import type { BuildLimits } from "../../port.ts";
import { unpackHere } from "./unpack-here.ts";

export type Unpacked = {
  entries: number;
  bytes: number;
  /** Number of entries left out because only macOS uses them (`._name`). */
  skipped: number;
};

export type UnpackOptions = {
  limits: BuildLimits;
  /** `tar` when the tarball is not compressed. */
  format?: "tar.gz" | "tar";
  /** The folder by which the process is found, like a build's other processes. */
  tmp: string;
};

/** What the process reports in its last line. */
export type UnpackOutcome =
  | { unpacked: Unpacked }
  | { failure: { code: BuildFailureCode; message: string } }
  | { error: { code?: string; message: string } };

const PROGRAM = join(import.meta.dirname, "unpack-process.ts");
/** Enough for 200 000 entries with names of 255 bytes. */
const NODE_FLAGS = ["--disable-warning=ExperimentalWarning", "--max-old-space-size=256"];
const MAX_OUTPUT = 64 * 1024;
/** Errors of writing to a process that has ended. */
const ENDED_EARLY = new Set(["EPIPE", "ECONNRESET", "ERR_STREAM_PREMATURE_CLOSE"]);

/** An archive of at most this size is unpacked in this process, which is faster, up to these limits. */
const SMALL_BYTES = 256 * 1024;
const SMALL: BuildLimits = { entries: 1000, unpackedBytes: 16 * 1024 ** 2 };

/**
 * Unpacks a tarball into the empty folder `target`, never outside it, whatever the archive contains
 * (docs/deployments.md#unpacking). Unless it is small, a process of its own with limited memory does this, so that it
 * does not block this process. Keeps the executable bit and drops all other modes and owners.
 *
 * Throws `BuildFailure` with stage `source`, or the signal's reason, once no process writes to `target`; the caller
 * removes what was written until then.
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
    if (!small) return await unpackInChild(source, target, options, signal);
    return (
      (await unpackSmall(small, target, options, signal)) ??
      (await unpackInChild(Readable.from(small), target, options, signal))
    );
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    source.destroy();
  }
}

/** Returns the whole of a small archive; undefined for a larger one, whose stream is then rewound. */
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

/** Returns undefined, with the folder empty again, for an archive that unpacks to more than `SMALL`. */
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

async function unpackInChild(
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
  const [output, errors] = [collectTail(child.stdout), collectTail(child.stderr)];
  // The process may end before it has read everything; its outcome then says why.
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
    const unpacked = parseOutcome(output());
    if (!unpacked) throw failed ?? new Error(`unpacking ended with ${killed ?? code}: ${errors()}`);
    return unpacked;
  } finally {
    signal?.removeEventListener("abort", kill);
  }
}

/** Reads a stream, and returns a function that returns the newest output. */
function collectTail(stream: Readable): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    text = (text + chunk).slice(-MAX_OUTPUT);
  });
  return () => text;
}

/** Returns undefined when the process ended before it could report; throws what it reports. */
function parseOutcome(output: string): Unpacked | undefined {
  if (!output.endsWith("\n")) return undefined;
  const outcome: UnpackOutcome = JSON.parse(output);
  if ("unpacked" in outcome) return outcome.unpacked;
  if ("failure" in outcome) throw sourceFailure(outcome.failure.code, outcome.failure.message);
  throw Object.assign(new Error(outcome.error.message), { code: outcome.error.code });
}
