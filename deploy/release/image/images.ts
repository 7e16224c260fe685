import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, matchesGlob } from "node:path";
import {
  type Component,
  cycloneDx,
  debianPackages,
  nodeComponent,
  npmPackages,
} from "../../images/components.ts";
import { sbomPath } from "../../images/images.ts";
import { appSources, type ImageName, nodeVersion, type Platform, type Recipe } from "../settings.ts";
import type { Source } from "../source.ts";
import { type Entry, writeTar } from "../tar.ts";
import { debianFiles } from "./debian.ts";
import { type Layer, makeLayer, startLayout } from "./layout.ts";
import { committed, consoleFiles, nodeFiles, npmFiles } from "./packages.ts";
import { spdx } from "./spdx.ts";

export type Digests = Record<ImageName, string>;

type Options = {
  source: Source;
  registry: string;
  recipes: Recipe[];
  platforms: Platform[];
  out: string;
  work: string;
};

/**
 * Makes every image for every platform: a layout below `images/` and a bill of materials for each platform below
 * `sbom/`. Returns the digests of their indexes. No program of an image runs, so each platform can be made on any other.
 */
export async function makeImages({
  source,
  registry,
  recipes,
  platforms,
  out,
  work,
}: Options): Promise<Digests> {
  await mkdir(join(out, "sbom"), { recursive: true });
  const blobs = join(work, "layers");
  await mkdir(blobs);
  const layer = (entries: Entry[], what: string) => makeLayer(writeTar(entries, source.date), blobs, what);
  const built = await consoleFiles(source.root, work);
  const app = await layer([...(await appFiles(source.root)), ...built.entries], "the commit and the console");
  const digests: Partial<Digests> = {};
  const parts = new Map<Platform, { layers: Layer[]; components: Component[] }>();
  for (const platform of platforms) {
    const node = await layer(await nodeFiles(platform, work), `Node ${nodeVersion} ${platform.arch}`);
    const packages = await npmFiles(source.root, platform, work);
    parts.set(platform, {
      layers: [node, await layer(packages.entries, `npm packages ${platform.arch}`), app],
      components: [nodeComponent(nodeVersion), ...[packages.record, built.record].flatMap(npmPackages)],
    });
  }
  for (const recipe of recipes) {
    const layout = await startLayout(join(out, "images", recipe.name));
    const manifests = [];
    for (const platform of platforms) {
      const debian = await debianFiles(recipe, platform, work);
      const base = await layer(debian.entries, `Debian ${recipe.name} ${platform.arch}`);
      const { layers, components: common } = parts.get(platform)!;
      const components = [...common, ...debianPackages(debian.status)];
      const own = await layer(await ownFiles(recipe, source, components), `${recipe.name} ${platform.arch}`);
      const all = [base, ...layers, own];
      const { arch: architecture, variant } = platform;
      const of = { architecture, os: "linux" as const, ...(variant && { variant }) };
      const image = await layout.image(of, configOf(recipe, source, of, all), all);
      manifests.push(image);
      const described = {
        name: recipe.name,
        version: source.version,
        arch: architecture,
        digest: image.digest,
      };
      await writeFile(
        join(out, "sbom", `${recipe.name}-linux-${architecture}.spdx.json`),
        spdx({ ...described, created: source.date, components }),
      );
    }
    digests[recipe.name] = await layout.finish(manifests, labelsOf(recipe, source), {
      "org.opencontainers.image.ref.name": source.version,
      // The name that containerd gives the image when it imports the layout.
      "io.containerd.image.name": `${registry}/${recipe.name}:${source.version}`,
    });
  }
  return digests as Digests;
}

/** Returns what the images have of the repository. */
export async function appFiles(root: string): Promise<Entry[]> {
  const ignored = await readIgnored(root);
  const entries = await committed(root, appSources, "app/");
  return entries.filter(({ path }) => !ignored(path.slice("app/".length)));
}

/** Returns whether `.dockerignore` leaves a path out, though it takes the folder. */
async function readIgnored(root: string): Promise<(path: string) => boolean> {
  const lines = (await readFile(join(root, ".dockerignore"), "utf8")).split("\n");
  const patterns = lines.filter((line) => /^[^!#*]|^\*\*/.test(line));
  return (path) => {
    const parts = path.split("/");
    const above = parts.map((_, at) => parts.slice(0, at + 1).join("/"));
    return patterns.some((pattern) => above.some((one) => matchesGlob(one, pattern)));
  };
}

/** What only this image has, and changes with each commit. */
async function ownFiles(
  { name }: Recipe,
  { root, version }: Source,
  components: Component[],
): Promise<Entry[]> {
  const sbom = Buffer.from(cycloneDx(name, version, components));
  return [
    { kind: "link", path: "usr/local/bin/berth", mode: 0o777, target: "/app/deploy/images/berth.sh" },
    { kind: "file", path: sbomPath.slice(1), mode: 0o644, data: sbom },
    ...(name === "berth-builder" ? await buildahSettings(root) : []),
  ];
}

async function buildahSettings(root: string): Promise<Entry[]> {
  const folder = "deploy/images/containers";
  const entries = await committed(root, [folder]);
  return entries.map((entry) => ({ ...entry, path: entry.path.replace(folder, "etc/containers") }));
}

function labelsOf({ title, description }: Recipe, { version, revision }: Source): Record<string, string> {
  const label = (name: string) => `org.opencontainers.image.${name}`;
  return {
    [label("title")]: title,
    [label("description")]: description,
    [label("licenses")]: "Apache-2.0",
    [label("version")]: version,
    [label("revision")]: revision,
  };
}

function configOf(recipe: Recipe, source: Source, platform: object, layers: Layer[]) {
  const created = source.date.toISOString();
  return {
    created,
    ...platform,
    config: {
      User: "1000:1000",
      Env: Object.entries(recipe.env).map(([name, value]) => `${name}=${value}`),
      Entrypoint: ["berth"],
      WorkingDir: "/app",
      Labels: labelsOf(recipe, source),
    },
    rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(({ what }) => ({ created, created_by: what })),
  };
}
