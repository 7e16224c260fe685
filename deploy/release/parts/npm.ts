import { cp, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { unpackCommitted } from "../image/packages.ts";
import { run } from "../run.ts";
import type { Source } from "../source.ts";

/** The packages that are published, by their folders below `clients/`. */
const packages = ["cli", "typescript"];

/** Compiles and packs the command line and the client into `npm/`. */
export async function makeNpmPackages({ root }: Source, out: string, work: string): Promise<void> {
  const destination = join(out, "npm");
  await mkdir(destination, { recursive: true });
  for (const name of packages) {
    const folder = join(work, `npm-${name}`);
    await unpackCommitted(root, ["LICENSE", `clients/${name}`], folder);
    const source = join(folder, "clients", name);
    await cp(join(folder, "LICENSE"), join(source, "LICENSE"));
    const config = join(root, "clients", name, "tsconfig.build.json");
    await run(join(root, "node_modules/.bin/tsc"), ["-p", config, "--outDir", join(source, "dist")]);
    await run("npm", ["pack", "--pack-destination", destination], { cwd: source });
  }
}
