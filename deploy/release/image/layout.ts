import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { link, mkdir, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";

export const TYPES = {
  index: "application/vnd.oci.image.index.v1+json",
  manifest: "application/vnd.oci.image.manifest.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar+gzip",
};

export type Descriptor = {
  mediaType: string;
  digest: string;
  size: number;
  platform?: { architecture: string; os: "linux"; variant?: string };
  annotations?: Record<string, string>;
};

/** A layer in a file of its own, before it is part of a layout. `diffId` is the digest of the archive itself. */
export type Layer = { descriptor: Descriptor; diffId: string; file: string; what: string };

const digestOf = (bytes: string | Buffer) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

/** Compresses an archive into a folder. `what` says in the image's history how the layer came about. */
export async function makeLayer(archive: Readable, folder: string, what: string): Promise<Layer> {
  const [plain, packed] = [createHash("sha256"), createHash("sha256")];
  const hashing = (hash: typeof plain) => new PassThrough().on("data", (chunk) => void hash.update(chunk));
  const unfinished = join(folder, `${process.pid}-${what.replaceAll(/\W/g, "-")}`);
  await pipeline(
    archive,
    hashing(plain),
    createGzip({ level: 6 }),
    hashing(packed),
    createWriteStream(unfinished),
  );
  const digest = `sha256:${packed.digest("hex")}`;
  const file = join(folder, digest.slice("sha256:".length));
  await rename(unfinished, file);
  const { size } = await stat(file);
  return {
    descriptor: { mediaType: TYPES.layer, digest, size },
    diffId: `sha256:${plain.digest("hex")}`,
    file,
    what,
  };
}

/** Starts an OCI image layout in a folder. */
export async function startLayout(folder: string) {
  const blobs = join(folder, "blobs", "sha256");
  await mkdir(blobs, { recursive: true });
  await writeFile(join(folder, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}\n');
  const blob = async (mediaType: string, content: object): Promise<Descriptor> => {
    const bytes = Buffer.from(JSON.stringify(content));
    const digest = digestOf(bytes);
    await writeFile(join(blobs, digest.slice("sha256:".length)), bytes);
    return { mediaType, digest, size: bytes.length };
  };
  /** Adds the image of one platform, and returns the descriptor of its manifest. */
  async function image(platform: NonNullable<Descriptor["platform"]>, config: object, layers: Layer[]) {
    for (const { descriptor, file } of layers)
      await link(file, join(blobs, descriptor.digest.slice("sha256:".length))).catch((error) => {
        // A layer that all platforms have.
        if (error.code !== "EEXIST") throw error;
      });
    const manifest = {
      schemaVersion: 2,
      mediaType: TYPES.manifest,
      config: await blob(TYPES.config, config),
      layers: layers.map(({ descriptor }) => descriptor),
    };
    return { ...(await blob(TYPES.manifest, manifest)), platform };
  }
  /** Completes the layout with the index of all platforms, and returns its digest. */
  async function finish(
    manifests: Descriptor[],
    annotations: Record<string, string>,
    names: Record<string, string>,
  ) {
    const content = { schemaVersion: 2, mediaType: TYPES.index, manifests, annotations };
    const index = await blob(TYPES.index, content);
    const entry = { schemaVersion: 2, mediaType: TYPES.index, manifests: [{ ...index, annotations: names }] };
    await writeFile(join(folder, "index.json"), `${JSON.stringify(entry)}\n`);
    return index.digest;
  }
  return { image, finish };
}
