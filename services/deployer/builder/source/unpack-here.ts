import { type Duplex, PassThrough, type Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { extract } from "tar-stream";
import { BuildFailure, type BuildFailureCode } from "../port.ts";
import type { Unpacked, UnpackOptions } from "./unpack.ts";
import { createWriter, type OpenFile } from "./unpack-write.ts";

/** Whole files come in one piece, most of them. */
const CHUNK_BYTES = 256 * 1024;

/**
 * Unpacks a tarball into the empty folder `target` in this process. It waits for each write: that takes a third
 * of the time of asynchronous ones, and keeps this process from everything else meanwhile.
 */
export async function unpackHere(
  source: Readable,
  target: string,
  { limits, format }: Pick<UnpackOptions, "limits" | "format">,
  signal?: AbortSignal,
): Promise<Unpacked> {
  const writer = createWriter(target, limits);
  const archive = extract();
  let failure: unknown;
  let open: OpenFile | undefined;
  const attempt = (step: () => void) => {
    if (failure !== undefined) return;
    try {
      step();
    } catch (error) {
      failure = error;
      archive.destroy(error as Error);
    }
  };
  archive.on("entry", (header, content, next) => {
    content.on("error", () => {}); // the archive has it too
    attempt(() => {
      const file = writer.add(header);
      content.on("data", (chunk) => attempt(() => file?.write(chunk as Buffer)));
      content.resume();
      if (!file) return next();
      open = file;
      const close = () => {
        open = undefined;
        file.close();
        next();
      };
      if (header.size === 0) close();
      else content.on("end", () => attempt(close));
    });
  });
  const decode: Duplex = format === "tar" ? new PassThrough() : createGunzip({ chunkSize: CHUNK_BYTES });
  // Headers and padding come on top of the files.
  const tap = countBytes(limits.unpackedBytes + limits.entries * 2048, writer.tooLarge);
  try {
    await pipeline(source, decode, tap, archive, { signal });
    return writer.finish();
  } catch (error) {
    // What writing ran into ended the stream: the stream's own words would hide it.
    throw explain((failure ?? error) as Error, writer.unpacked.entries);
  } finally {
    open?.close();
  }
}

function countBytes(limit: number, refuse: () => Error): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > limit) done(refuse());
      else done(null, chunk);
    },
  });
}

/** Turns what the decoders say into a sentence for users. */
function explain(error: Error & { code?: string }, entries: number): Error {
  if (error instanceof BuildFailure) return error;
  const { code, message } = error;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return refusal("disk_full", "There is no room left on the disk to unpack the archive.");
  }
  if (code === "ENAMETOOLONG")
    return refusal("archive_path_invalid", "The archive holds a path that is too long.");
  if (code === "EEXIST") {
    return refusal("archive_path_conflict", "The archive holds two names that are the same on this machine.");
  }
  if (code === "Z_DATA_ERROR" && message === "incorrect header check") {
    return refusal("archive_not_gzip", "The upload is no gzip file; pack it with tar -czf.");
  }
  const cut = code === "Z_BUF_ERROR" || message === "Unexpected end of data";
  if (cut && (entries > 0 || code === "Z_BUF_ERROR")) {
    return refusal("archive_truncated", "The archive is cut short; upload it again.");
  }
  if (message === "Header exceeds max size") {
    return refusal("archive_path_invalid", "The archive holds a header that is too large.");
  }
  if (cut || message.startsWith("Invalid tar header") || message === "Invalid header") {
    return entries === 0
      ? refusal("archive_not_tar", "The upload is gzipped but no tarball; pack it with tar -czf.")
      : refusal("archive_truncated", "The archive is damaged; upload it again.");
  }
  if (code?.startsWith("Z_")) return refusal("archive_truncated", "The archive is damaged; upload it again.");
  return error;
}

function refusal(code: BuildFailureCode, message: string): BuildFailure {
  return new BuildFailure("source", code, message);
}
