import { type Duplex, PassThrough, type Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { extract } from "tar-stream";
import { BuildFailure, sourceFailure } from "../../build-failure.ts";
import { createEntryWriter, type OpenFile } from "./entry-writer.ts";
import type { Unpacked, UnpackOptions } from "./unpack.ts";

/** Large enough that most files arrive in one piece. */
const CHUNK_BYTES = 256 * 1024;

/**
 * Unpacks a tarball into the empty folder `target` in this process. Writes are synchronous: they take a third of the
 * time of asynchronous ones, but block this process meanwhile.
 */
export async function unpackHere(
  source: Readable,
  target: string,
  { limits, format }: Pick<UnpackOptions, "limits" | "format">,
  signal?: AbortSignal,
): Promise<Unpacked> {
  const writer = createEntryWriter(target, limits);
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
    content.on("error", () => {}); // the archive reports it too
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
  // Headers and padding count besides the files.
  const limiter = limitBytes(limits.unpackedBytes + limits.entries * 2048, writer.tooLarge);
  try {
    await pipeline(source, decode, limiter, archive, { signal });
    return writer.finish();
  } catch (error) {
    // A failed write destroyed the stream, whose own error would hide the cause.
    throw toUnpackFailure((failure ?? error) as Error, writer.unpacked.entries);
  } finally {
    open?.close();
  }
}

function limitBytes(limit: number, exceeded: () => Error): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > limit) done(exceeded());
      else done(null, chunk);
    },
  });
}

/** Returns the failure for an error of a decoder or the file system; other errors as they are. */
function toUnpackFailure(error: Error & { code?: string }, entries: number): Error {
  if (error instanceof BuildFailure) return error;
  const { code, message } = error;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return sourceFailure("disk_full", "There is no room left on the disk to unpack the archive.");
  }
  if (code === "ENAMETOOLONG")
    return sourceFailure("archive_path_invalid", "The archive contains a path that is too long.");
  if (code === "EEXIST") {
    return sourceFailure(
      "archive_path_conflict",
      "The archive contains two names that are the same on this machine's file system.",
    );
  }
  if (code === "Z_DATA_ERROR" && message === "incorrect header check") {
    return sourceFailure("archive_not_gzip", "The upload is not a gzip file; pack it with tar -czf.");
  }
  const cut = code === "Z_BUF_ERROR" || message === "Unexpected end of data";
  if (cut && (entries > 0 || code === "Z_BUF_ERROR")) {
    return sourceFailure("archive_truncated", "The archive is truncated; upload it again.");
  }
  if (message === "Header exceeds max size") {
    return sourceFailure("archive_path_invalid", "The archive contains a header that is too large.");
  }
  if (cut || message.startsWith("Invalid tar header") || message === "Invalid header") {
    return entries === 0
      ? sourceFailure("archive_not_tar", "The upload is gzipped but not a tarball; pack it with tar -czf.")
      : sourceFailure("archive_truncated", "The archive is damaged; upload it again.");
  }
  if (code?.startsWith("Z_"))
    return sourceFailure("archive_truncated", "The archive is damaged; upload it again.");
  return error;
}
