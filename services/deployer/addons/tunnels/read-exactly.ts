import { once } from "node:events";
import type { Readable } from "node:stream";

/** Returns the next bytes of a stream, and leaves the others in it. Throws when it ends before, and when the signal aborts. */
export async function readExactly(stream: Readable, size: number, signal: AbortSignal): Promise<Buffer> {
  let found = Buffer.alloc(0);
  for (;;) {
    // All of it: a stream that still has some says again and again, at once, that it can be read.
    const more: Buffer | null = stream.read();
    if (more) found = Buffer.concat([found, more]);
    if (found.length >= size) {
      if (found.length > size) stream.unshift(found.subarray(size));
      return found.subarray(0, size);
    }
    if (stream.readableEnded || stream.destroyed) throw new Error("the connection has ended");
    await once(stream, "readable", { signal });
  }
}
