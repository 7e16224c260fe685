import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Engine } from "./engine.ts";

/** The path in every image of its software bill of materials (CycloneDX JSON). */
export const sbomPath = "/usr/share/berth/sbom.cdx.json";

export type ImageNames = { platform: string; builder: string };

/** Returns the names of the images in a registry, which may include a path; "" makes local names. */
export function imageNames(registry: string, tag: string): ImageNames {
  const prefix = registry === "" ? "localhost" : registry.replace(/\/$/, "");
  return { platform: `${prefix}/berth:${tag}`, builder: `${prefix}/berth-builder:${tag}` };
}

type Options = { names: ImageNames; base?: string; ca?: string; source?: string };

const root = join(import.meta.dirname, "../..");

/** Builds the platform's image, and on top of it the builder's. */
export async function buildImages(engine: Engine, { names, base, ca, source }: Options): Promise<void> {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
  const stamps = { VERSION: version, REVISION: await revision() };
  const labels: Record<string, string> = source ? { "org.opencontainers.image.source": source } : {};
  await engine.build({
    image: names.platform,
    dockerfile: join(root, "deploy", "images", "Dockerfile"),
    context: root,
    args: { ...stamps, ...(base && { BASE: base }) },
    labels,
    secrets: ca ? { ca } : {},
  });
  await engine.build({
    image: names.builder,
    dockerfile: join(root, "deploy", "images", "builder.Dockerfile"),
    context: root,
    args: { ...stamps, PLATFORM: names.platform },
    labels,
    secrets: {},
  });
}

/** Returns the current commit, marked when the working tree differs from it. */
async function revision(): Promise<string> {
  const git = (...args: string[]) => promisify(execFile)("git", args, { cwd: root });
  try {
    const { stdout: commit } = await git("rev-parse", "HEAD");
    const { stdout: changes } = await git("status", "--porcelain");
    return commit.trim() + (changes === "" ? "" : "-dirty");
  } catch {
    return "unknown"; // There is no git history.
  }
}
