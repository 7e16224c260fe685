import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeImages } from "./image/images.ts";
import { makeBundle } from "./parts/bundle.ts";
import { makeChart } from "./parts/chart.ts";
import { notesOf } from "./parts/notes.ts";
import { makeNpmPackages } from "./parts/npm.ts";
import { makeServer } from "./parts/server.ts";
import { platforms, recipes } from "./settings.ts";
import type { Source } from "./source.ts";

/**
 * Makes everything of a release in a folder, which it replaces once all is done. Work goes on beside it, because layers
 * are linked from there; what a killed run left there is removed by the next.
 */
export async function makeRelease(source: Source, registry: string, out: string): Promise<void> {
  const part = `${out}.part`;
  const [made, work] = [join(part, "made"), join(part, "work")];
  await rm(part, { recursive: true, force: true });
  try {
    for (const folder of [made, work]) await mkdir(folder, { recursive: true });
    const digests = await timed("images", () =>
      makeImages({ source, registry, recipes, platforms, out: made, work }),
    );
    await makeServer(source, registry, await makeChart(source, registry, digests, made), made);
    await timed("npm packages", () => makeNpmPackages(source, made, work));
    const changelog = await readFile(join(source.root, "CHANGELOG.md"), "utf8");
    await writeFile(join(made, "RELEASE-NOTES.md"), notesOf(changelog, source.version));
    await timed("bundle", () => makeBundle(source, registry, made));
    await rm(out, { recursive: true, force: true });
    await rename(made, out);
  } finally {
    await rm(part, { recursive: true, force: true });
  }
}

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work();
  console.log(`${what}: ${((performance.now() - began) / 1000).toFixed(0)} s`);
  return result;
}
