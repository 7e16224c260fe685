import { Unreachable } from "./errors.ts";

/** The bytes of an archive. */
export type Archive = Blob | Uint8Array<ArrayBuffer>;

type Options = { signal?: AbortSignal; onProgress?: (sentBytes: number) => void };

/** What is used of a browser's XMLHttpRequest, which Node has not. */
type Xhr = {
  open(method: string, url: string): void;
  setRequestHeader(name: string, value: string): void;
  send(body: Blob): void;
  abort(): void;
  readonly status: number;
  readonly upload: { onprogress?: (event: { loaded: number }) => void };
  onload?: () => void;
  onerror?: () => void;
  onabort?: () => void;
};

const CHUNK_BYTES = 256 * 1024;

/** Sends an archive to the URL of an upload. */
export async function put(
  url: string,
  archive: Archive,
  contentType: string,
  options: Options,
): Promise<void> {
  const blob = archive instanceof Blob ? archive : new Blob([archive]);
  // Only Node sends the length of a stream, which stores ask for; a browser tells of progress by XMLHttpRequest alone.
  const { XMLHttpRequest } = globalThis as unknown as { XMLHttpRequest?: new () => Xhr };
  const status = XMLHttpRequest
    ? await sendByXhr(new XMLHttpRequest(), url, blob, contentType, options)
    : await send(url, blob, contentType, options);
  if (status >= 300) throw new Unreachable(`The upload was refused with ${status}.`);
}

async function send(
  url: string,
  blob: Blob,
  contentType: string,
  { signal, onProgress }: Options,
): Promise<number> {
  let sent = 0;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (sent >= blob.size) return controller.close();
      const chunk = new Uint8Array(await blob.slice(sent, sent + CHUNK_BYTES).arrayBuffer());
      sent += chunk.byteLength;
      controller.enqueue(chunk);
      onProgress?.(sent);
    },
  });
  const headers = { "content-type": contentType, "content-length": String(blob.size) };
  const init = { method: "PUT", headers, body, duplex: "half", ...(signal && { signal }) };
  try {
    return (await fetch(url, init as RequestInit)).status;
  } catch (error) {
    signal?.throwIfAborted();
    throw new Unreachable("The upload was interrupted.", { cause: error });
  }
}

function sendByXhr(
  request: Xhr,
  url: string,
  blob: Blob,
  contentType: string,
  { signal, onProgress }: Options,
): Promise<number> {
  return new Promise((resolve, reject) => {
    request.open("PUT", url);
    request.setRequestHeader("content-type", contentType);
    if (onProgress) request.upload.onprogress = ({ loaded }) => onProgress(loaded);
    request.onload = () => resolve(request.status);
    request.onerror = () => reject(new Unreachable("The upload was interrupted."));
    request.onabort = () => reject(signal?.reason as Error);
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    request.send(blob);
  });
}
