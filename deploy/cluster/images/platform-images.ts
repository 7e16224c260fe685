import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { buildImages, imageNames } from "../../images/images.ts";
import { timed } from "../commands.ts";
import { withLock } from "../lock.ts";
import { folders, registry } from "../settings.ts";
import type { Bases } from "./base-images.ts";
import { engine, isPushed, push } from "./registry.ts";

const root = join(import.meta.dirname, "../../..");

/** What changes no image's behaviour; the gateway serves the docs. */
const irrelevant = /(\.test|\/testing)\.ts$|\/testing\/|^(?!docs\/).*\.md$/;

/**
 * Builds the platform's image, that of its next version and the builder's from this repository, and pushes them, unless
 * the registry has them.
 */
export async function pushPlatform(
  bases: Bases,
): Promise<{ platform: string; next: string; builder: string }> {
  const tag = await treeHash(bases["node-slim"]);
  const names = imageNames(registry.push, tag);
  const images = { platform: `berth:${tag}`, builder: `berth-builder:${tag}` };
  await withLock(folders.images, async () => {
    if ((await isPushed(images.platform)) && (await isPushed(images.builder))) return;
    await timed("Built and pushed the images of the platform and the builder", async () => {
      const ca = caBundle();
      await buildImages(engine, { names, base: `${registry.push}/${bases["node-slim"]}`, ca });
      await engine.push(names.platform);
      await engine.push(names.builder);
    });
  });
  return { ...images, next: await pushNext(images.platform, tag) };
}

async function pushNext(platform: string, platformTag: string): Promise<string> {
  const file = (name: string) => join(import.meta.dirname, name);
  const [dockerfile, sql] = await Promise.all(
    ["next.Dockerfile", "next.sql"].map((name) => readFile(file(name), "utf8")),
  );
  const tag = createHash("sha256")
    .update(JSON.stringify([platformTag, dockerfile, sql]))
    .digest("hex");
  return push({
    name: "berth-next",
    tag: tag.slice(0, 16),
    dockerfile: dockerfile!,
    files: { "next.sql": file("next.sql") },
    args: { BASE: `${registry.push}/${platform}` },
  });
}

/** Returns the file of additional certificates that Node trusts on this machine: builds need them too. */
export function caBundle(): string | undefined {
  const file = process.env.NODE_EXTRA_CA_CERTS;
  return file && existsSync(file) ? file : undefined;
}

/** Returns the paths that images are made of: those that `.dockerignore` admits. */
export async function readImageSources(): Promise<string[]> {
  const lines = (await readFile(join(root, ".dockerignore"), "utf8")).split("\n");
  return lines.filter((line) => line.startsWith("!")).map((line) => line.slice(1));
}

async function treeHash(base: string): Promise<string> {
  const paths = [".dockerignore", ...(await readImageSources())];
  const list = [
    "ls-files",
    "-z",
    "--cached",
    "--others",
    "--exclude-standard",
    "--deduplicate",
    "--",
    ...paths,
  ];
  const { stdout } = await promisify(execFile)("git", list, { cwd: root, maxBuffer: 16 << 20 });
  const hash = createHash("sha256").update(base);
  for (const file of stdout
    .split("\0")
    .filter((name) => name && !irrelevant.test(name))
    .sort()) {
    const path = join(root, file);
    if (existsSync(path))
      hash
        .update(file)
        .update("\0")
        .update(await readFile(path));
  }
  return hash.digest("hex").slice(0, 16);
}
