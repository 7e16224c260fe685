import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { fetch } from "../../services/kit/network/fetch.ts";
import type { Bucket } from "./bucket.ts";

/** An image under one tag: its manifest as it is, and the blobs that it names. */
type Image = { repository: string; tag: string; type: string; manifest: string; blobs: string[] };
type Manifest = { config?: Blob; layers?: Blob[] };
type Blob = { digest: string; size: number };

const MANIFEST_TYPES = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
];
const REQUEST_MS = 600_000;

/** Returns a client of the bundled registry. */
export function openRegistry(url: string, password: string, user = "berth") {
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  async function send(path: string, request: RequestInit & { duplex?: "half" } = {}, allowed: number[] = []) {
    const headers = { ...request.headers, authorization };
    const signal = AbortSignal.timeout(REQUEST_MS);
    const response = await fetch(new URL(path, url), { ...request, headers, signal });
    if (response.ok || allowed.includes(response.status)) return response;
    await response.body?.cancel();
    throw new Error(`the registry answers ${response.status} to ${request.method ?? "GET"} ${path}`);
  }
  /** Yields what a list has, page after page. */
  async function* list(path: string, member: string): AsyncGenerator<string> {
    for (let next: string | undefined = path; next; ) {
      const response: Response = await send(next, {}, [404]);
      const page = (await response.json()) as Record<string, string[] | null>;
      yield* page[member] ?? [];
      next = /^<([^<>]+)>/.exec(response.headers.get("link") ?? "")?.[1];
    }
  }
  return { send, list };
}

export type Registry = ReturnType<typeof openRegistry>;

/** Copies the layers that the backups do not have yet. Yields every image as JSON. */
export async function* backUpImages({ send, list }: Registry, backups: Bucket): AsyncGenerator<string> {
  const there = new Set((await backups.list("blobs/")).map(({ path }) => path));
  for await (const repository of list("/v2/_catalog?n=100", "repositories"))
    for await (const tag of list(`/v2/${repository}/tags/list?n=100`, "tags")) {
      const accept = MANIFEST_TYPES.join(", ");
      const found = await send(`/v2/${repository}/manifests/${tag}`, { headers: { accept } }, [404]);
      const manifest = await found.text();
      // Removed since it was listed.
      if (found.status === 404) continue;
      const { config, layers = [] } = JSON.parse(manifest) as Manifest;
      const blobs = [...(config ? [config] : []), ...layers];
      for (const { digest, size } of blobs) {
        if (there.has(blobPath(digest))) continue;
        const blob = await send(`/v2/${repository}/blobs/${digest}`);
        await backups.put(blobPath(digest), Readable.fromWeb(blob.body as ReadableStream), { size });
        there.add(blobPath(digest));
      }
      const type = found.headers.get("content-type") ?? MANIFEST_TYPES[0]!;
      const digests = blobs.map(({ digest }) => digest);
      yield JSON.stringify({ repository, tag, type, manifest, blobs: digests } satisfies Image);
    }
}

/** Returns where the backups have a layer. */
export function blobPath(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}

/** Puts the images of a backup into the registry, which checks their digests. */
export async function restoreImages({ send }: Registry, backups: Bucket, lines: AsyncIterable<string>) {
  for await (const line of lines) {
    const { repository, tag, type, manifest, blobs } = JSON.parse(line) as Image;
    for (const digest of blobs) {
      const there = await send(`/v2/${repository}/blobs/${digest}`, { method: "HEAD" }, [404]);
      if (there.ok) continue;
      const begun = await send(`/v2/${repository}/blobs/uploads/`, { method: "POST" });
      const target = new URL(begun.headers.get("location") ?? "", begun.url);
      target.searchParams.set("digest", digest);
      const { size } = await backups.stat(blobPath(digest));
      await send(target.href, {
        method: "PUT",
        headers: { "content-type": "application/octet-stream", "content-length": String(size) },
        body: Readable.toWeb(await backups.get(blobPath(digest))) as unknown as RequestInit["body"],
        duplex: "half",
      });
    }
    await send(`/v2/${repository}/manifests/${tag}`, {
      method: "PUT",
      headers: { "content-type": type },
      body: manifest,
    });
  }
}
