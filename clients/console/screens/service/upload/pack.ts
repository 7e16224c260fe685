import { END, headerOf, paddingOf } from "../../../../pack/tar.ts";
import { Complaint } from "../../../design/complaint.ts";
import { texts } from "../../../texts.ts";
import type { ListedFile, Listing } from "./listing.ts";

/** Packs what was listed into a gzipped tarball. `onProgress` is called with how many bytes were read. */
export async function pack(
  { entries }: Listing,
  { signal, onProgress }: { signal: AbortSignal; onProgress: (bytes: number) => void },
): Promise<Blob> {
  let read = 0;
  let fault: unknown;
  async function* tar() {
    for (const entry of entries) {
      yield headerOf(entry);
      if (entry.kind !== "file") continue;
      for await (const chunk of contentOf(entry)) {
        read += chunk.length;
        onProgress(read);
        yield chunk;
      }
      yield paddingOf(entry.size);
    }
    yield END;
  }
  const source = toStream(tar(), (error) => {
    fault = error;
  });
  // The browser keeps a large blob on the disk. What it throws says nothing of the source's error.
  const blob = new Response(source.pipeThrough(new CompressionStream("gzip"), { signal })).blob();
  return blob.catch((error: unknown) => {
    throw fault ?? error;
  });
}

/** Yields exactly the bytes that the header promises: a file that changes meanwhile would make a broken archive. */
async function* contentOf({ path, size, open }: ListedFile): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const changed = () => new Complaint(texts.upload.changed(path));
  const reader = (await open()).getReader();
  let read = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        throw changed();
      });
      if (done) break;
      read += value.length;
      if (read > size) throw changed();
      yield value as Uint8Array<ArrayBuffer>;
    }
    if (read < size) throw changed();
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** `ReadableStream.from`, which not every browser has. */
function toStream(
  pieces: AsyncGenerator<Uint8Array<ArrayBuffer>>,
  onError: (error: unknown) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        onError(error);
        throw error;
      }
    },
    cancel: async () => void (await pieces.return(undefined)),
  });
}
