import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { type Descriptor, TYPES } from "../image/layout.ts";
import type { Registry } from "./registry.ts";

/** What was sent to a registry: requests that changed it. */
export type Pushed = { reference: string; digest: string; sent: number };

type Blob = { digest: string; size: number; body: () => NonNullable<RequestInit["body"]> };
type Manifest = { mediaType: string; digest: string; bytes: Buffer };

const digestOf = (bytes: Buffer) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

/** Pushes all platforms of an image layout under a tag. What the registry has is not sent again. */
export async function pushLayout(
  registry: Registry,
  layout: string,
  repository: string,
  tag: string,
): Promise<Pushed> {
  const fileOf = (digest: string) => join(layout, "blobs", ...digest.split(":"));
  const { manifests } = JSON.parse(await readFile(join(layout, "index.json"), "utf8")) as {
    manifests: Descriptor[];
  };
  const [index] = manifests;
  if (manifests.length !== 1 || index?.mediaType !== TYPES.index)
    throw new Error(`${layout} is not the layout of one image with an index.`);
  const read = async ({ mediaType, digest }: Descriptor): Promise<Manifest> => {
    const bytes = await readFile(fileOf(digest));
    if (digestOf(bytes) !== digest)
      throw new Error(`${fileOf(digest)} is damaged: its content has another digest.`);
    return { mediaType, digest, bytes };
  };
  const whole = await read(index);
  let sent = 0;
  for (const platform of (JSON.parse(whole.bytes.toString()) as { manifests: Descriptor[] }).manifests) {
    const manifest = await read(platform);
    const { config, layers } = JSON.parse(manifest.bytes.toString()) as {
      config: Descriptor;
      layers: Descriptor[];
    };
    for (const { digest, size } of [config, ...layers]) {
      const body = () => Readable.toWeb(createReadStream(fileOf(digest))) as unknown as ReadableStream;
      sent += await putBlob(registry, repository, { digest, size, body });
    }
    sent += await putManifest(registry, repository, manifest.digest, manifest);
  }
  sent += await putManifest(registry, repository, tag, whole);
  return { reference: `${repository}:${tag}`, digest: whole.digest, sent };
}

/** Pushes a packed chart as `helm push` does. `metadata` is its Chart.yaml. */
export async function pushChart(
  registry: Registry,
  file: string,
  repository: string,
  metadata: { version: string } & object,
): Promise<Pushed> {
  const chart = await readFile(file);
  const config = Buffer.from(JSON.stringify(metadata));
  const bytesOf = (mediaType: string, bytes: Buffer) => ({
    mediaType,
    digest: digestOf(bytes),
    size: bytes.length,
  });
  const content = {
    schemaVersion: 2,
    mediaType: TYPES.manifest,
    config: bytesOf("application/vnd.cncf.helm.config.v1+json", config),
    layers: [
      {
        ...bytesOf("application/vnd.cncf.helm.chart.content.v1.tar+gzip", chart),
        annotations: { "org.opencontainers.image.title": basename(file) },
      },
    ],
  };
  const bytes = Buffer.from(JSON.stringify(content));
  let sent = 0;
  for (const part of [config, chart])
    sent += await putBlob(registry, repository, {
      digest: digestOf(part),
      size: part.length,
      body: () => new Uint8Array(part),
    });
  const manifest = { mediaType: TYPES.manifest, digest: digestOf(bytes), bytes };
  sent += await putManifest(registry, repository, metadata.version, manifest);
  return { reference: `${repository}:${metadata.version}`, digest: manifest.digest, sent };
}

/** Sends a blob unless the registry has it. Returns how many were sent. */
async function putBlob(
  { origin, send }: Registry,
  repository: string,
  { digest, size, body }: Blob,
): Promise<number> {
  const there = await send("HEAD", `/v2/${repository}/blobs/${digest}`, repository, [404]);
  if (there.ok) return 0;
  const begun = await send("POST", `/v2/${repository}/blobs/uploads/`, repository, []);
  await begun.body?.cancel();
  const target = new URL(begun.headers.get("location") ?? "", origin);
  target.searchParams.set("digest", digest);
  const headers = { "content-type": "application/octet-stream", "content-length": String(size) };
  const put = await send("PUT", target.href, repository, [], { headers, body });
  await put.body?.cancel();
  return 1;
}

/** Puts a manifest under a tag, or its digest, unless it is there. Returns how many were sent. */
async function putManifest(
  registry: Registry,
  repository: string,
  at: string,
  manifest: Manifest,
): Promise<number> {
  const path = `/v2/${repository}/manifests/${at}`;
  const { mediaType, digest, bytes } = manifest;
  const there = await registry.send("HEAD", path, repository, [404], { headers: { accept: mediaType } });
  if (there.ok && there.headers.get("docker-content-digest") === digest) return 0;
  const put = await registry.send("PUT", path, repository, [], {
    headers: { "content-type": mediaType },
    body: () => new Uint8Array(bytes),
  });
  await put.body?.cancel();
  return 1;
}
