import { Unreachable } from "./errors.ts";

/** The bytes of an archive. */
export type Archive = Blob | Uint8Array<ArrayBuffer>;

export type UploadOptions = {
  signal?: AbortSignal;
  /** Called with how many bytes were sent. */
  onProgress?: (sentBytes: number) => void;
};

type Put = UploadOptions & { url: string; blob: Blob; contentType: string };

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
export async function put(given: Put): Promise<void> {
  // Only Node sends the length of a stream, which stores ask for; a browser tells of progress by XMLHttpRequest alone.
  const { XMLHttpRequest } = globalThis as unknown as { XMLHttpRequest?: new () => Xhr };
  const status = await (XMLHttpRequest ? sendByXhr(new XMLHttpRequest(), given) : send(given));
  if (status >= 300) throw new Unreachable(`The upload was refused with ${status}.`);
}

async function send({ url, blob, contentType, signal, onProgress }: Put): Promise<number> {
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

function sendByXhr(request: Xhr, { url, blob, contentType, signal, onProgress }: Put): Promise<number> {
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
