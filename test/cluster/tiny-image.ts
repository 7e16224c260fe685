import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import type { V1Namespace, V1Secret } from "@kubernetes/client-node";
import type { Bucket } from "../../deploy/backup/bucket.ts";
import { blobPath, type openRegistry, restoreImages } from "../../deploy/backup/images.ts";
import type { Kube } from "../../services/deployer/kube/client.ts";
import { Secret } from "../../services/deployer/kube/kinds.ts";
import { PULL_SECRET } from "../../services/deployer/runtime/kubernetes/release/manifests.ts";

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

/** Returns the status with which a registry's URL answers to the only login that a namespace of apps holds. */
export async function statusForApps(kube: Kube, namespace: V1Namespace, url: string): Promise<number> {
  const secret = await kube.get<V1Secret>(Secret, PULL_SECRET, namespace.metadata!.name);
  const text = Buffer.from(secret!.data![".dockerconfigjson"]!, "base64").toString();
  const { auths } = JSON.parse(text) as { auths: Record<string, { auth: string }> };
  const [login, ...more] = Object.values(auths);
  if (more.length > 0) throw new Error("the namespace holds more than one login");
  const headers = { accept: MANIFEST, authorization: `Basic ${login!.auth}` };
  return (await fetch(url, { headers })).status;
}
