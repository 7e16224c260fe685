import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { completeLayout, layoutPath } from "./layout.ts";

let folder: string;
let app: string;
let base: string;
const hash = (char: string) => char.repeat(64);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "layout-"));
  app = layoutPath(folder, "berth.local/app:latest");
  base = layoutPath(folder, "berth.local/run:latest");
  for (const one of [app, base]) mkdirSync(join(one, "blobs/sha256"), { recursive: true });
  writeFileSync(join(base, "blobs/sha256", hash("b")), "of the base");
  const layer = (digest: string) => ({
    mediaType: "application/vnd.docker.image.rootfs.diff.tar.gzip",
    digest,
    size: 1,
  });
  const config = { mediaType: "application/vnd.oci.image.config.v1+json", digest: hash("c"), size: 1 };
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const manifest = { schemaVersion: 2, mediaType, config, layers: [layer(`sha256:${hash("b")}`)] };
  writeFileSync(join(app, "blobs/sha256", hash("a")), JSON.stringify(manifest));
  writeFileSync(
    join(app, "index.json"),
    JSON.stringify({ manifests: [{ mediaType, digest: `sha256:${hash("a")}` }] }),
  );
});
afterEach(() => rm(folder, { recursive: true }));

test("an app's image gets the layers of its base, and the names of types that OCI has", () => {
  completeLayout(app, base);
  expect(readFileSync(join(app, "blobs/sha256", hash("b")), "utf8")).toBe("of the base");
  const { manifests } = JSON.parse(readFileSync(join(app, "index.json"), "utf8"));
  const [, digest] = manifests[0].digest.split(":");
  const manifest = JSON.parse(readFileSync(join(app, "blobs/sha256", digest), "utf8"));
  expect(manifest.layers[0].mediaType).toBe("application/vnd.oci.image.layer.v1.tar+gzip");
});

test("an image that leads to other files by a link is not read", () => {
  symlinkSync("/etc/hostname", join(app, "blobs/sha256", hash("d")));
  expect(() => completeLayout(app, base)).toThrow("no file");
});
