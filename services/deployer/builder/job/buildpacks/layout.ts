import { createHash } from "node:crypto";
import { copyFileSync, existsSync, lstatSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Returns where the lifecycle keeps the image `registry/name:tag` in a folder of OCI layouts. */
export function layoutPath(folder: string, image: string): string {
  return join(folder, ...image.split(/[/:]/));
}

const BLOBS = "blobs/sha256";
const MAX_JSON_BYTES = 4 * 1024 ** 2;

/** The lifecycle mixes Docker's names of types into its manifests, which buildah does not take. */
const TYPES: Record<string, string> = {
  "application/vnd.docker.distribution.manifest.v2+json": "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.container.image.v1+json": "application/vnd.oci.image.config.v1+json",
  "application/vnd.docker.image.rootfs.diff.tar": "application/vnd.oci.image.layer.v1.tar",
  "application/vnd.docker.image.rootfs.diff.tar.gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
};

type Descriptor = { mediaType: string; digest: string; size: number };

/**
 * Makes the OCI layout of an app one that buildah takes: with the layers of the image `base`, which it may lack, and the
 * names that OCI has for types. Throws when it has anything but files and folders: buildpacks wrote it, and a link in it
 * could name a file that they must not read.
 */
export function completeLayout(layout: string, base: string): void {
  for (const entry of readdirSync(layout, { recursive: true, withFileTypes: true })) {
    const stat = lstatSync(join(entry.parentPath, entry.name));
    if (!stat.isFile() && !stat.isDirectory())
      throw new Error(`the built image has an entry that is no file: ${entry.name}`);
  }
  for (const blob of readdirSync(join(base, BLOBS))) {
    const to = join(layout, BLOBS, blob);
    const from = join(base, BLOBS, blob);
    if (!existsSync(to) && lstatSync(from).isFile()) copyFileSync(from, to);
  }
  const index = readJson<{ manifests: Descriptor[] }>(join(layout, "index.json"));
  const [described] = index.manifests;
  const digest = /^sha256:([0-9a-f]{64})$/.exec(described?.digest ?? "")?.[1];
  if (digest === undefined) throw new Error("the built image has no manifest");
  const manifest = readJson<Descriptor & { config: Descriptor; layers: Descriptor[] }>(
    join(layout, BLOBS, digest),
  );
  for (const one of [manifest, manifest.config, ...manifest.layers])
    one.mediaType = TYPES[one.mediaType] ?? one.mediaType;
  const text = JSON.stringify(manifest);
  const hash = createHash("sha256").update(text).digest("hex");
  writeFileSync(join(layout, BLOBS, hash), text);
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const manifests = [{ mediaType, digest: `sha256:${hash}`, size: Buffer.byteLength(text) }];
  writeFileSync(join(layout, "index.json"), JSON.stringify({ schemaVersion: 2, manifests }));
}

function readJson<T>(path: string): T {
  if (lstatSync(path).size > MAX_JSON_BYTES)
    throw new Error("the built image has a manifest that is too large");
  return JSON.parse(readFileSync(path, "utf8")) as T;
}
