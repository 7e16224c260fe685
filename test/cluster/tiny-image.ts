import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import type { Bucket } from "../../deploy/backup/bucket.ts";
import { blobPath, type openRegistry, restoreImages } from "../../deploy/backup/images.ts";

type Registry = ReturnType<typeof openRegistry>;

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

/** Puts an image without layers into a registry, by way of the bucket; returns its manifest. */
export async function pushImage(registry: Registry, bucket: Bucket): Promise<string> {
  const blob = Buffer.from(JSON.stringify({ architecture: "amd64", os: "linux" }));
  const digest = `sha256:${createHash("sha256").update(blob).digest("hex")}`;
  await bucket.put(blobPath(digest), blob);
  const config = { mediaType: "application/vnd.oci.image.config.v1+json", digest, size: blob.length };
  const manifest = JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config, layers: [] });
  const image = { repository: "apps", tag: "one", type: MANIFEST, manifest, blobs: [digest] };
  await restoreImages(registry, bucket, Readable.from([JSON.stringify(image)]));
  return manifest;
}

/** Returns the manifest of that image. */
export async function pullImage({ send }: Registry): Promise<string> {
  return (await send("/v2/apps/manifests/one", { headers: { accept: MANIFEST } })).text();
}
