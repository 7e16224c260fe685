import { createHash, type Hash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

const here = join(import.meta.dirname, "..");
const root = join(here, "../..");

/** What the gateway serves: `index.html`, and `assets/` with compressed copies beside the files. */
export const dist = join(here, "dist");
/** What the files in `dist` were built from. */
const STAMP = join(dist, "built-from");

/** What a build depends on. */
const SOURCES = ["clients/console", "clients/typescript/src", "clients/pack", "package-lock.json"];
const COMPRESSED = /\.(?:js|css|svg)$/;

/** Builds the console unless the files that are there are of the same sources. Returns whether it built. */
export async function buildWhenStale(): Promise<boolean> {
  const stamp = await digestOf(SOURCES);
  const built = await readFile(STAMP, "utf8").catch(() => "");
  if (built === stamp) return false;
  // A folder of its own until it is complete: a gateway may start in the meantime, and another build may be under way.
  const folder = `${dist}-${process.pid}`;
  try {
    await bundle(folder);
    await compress(join(folder, "assets"));
    await writeFile(join(folder, "built-from"), stamp);
    await rm(dist, { recursive: true, force: true });
    await rename(folder, dist).catch((error: unknown) => {
      if (!existsSync(STAMP)) throw error;
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return true;
}

async function bundle(outDir: string): Promise<void> {
  // Vite goes by the variable first, and tests have another one: React for developers is twice as large.
  process.env.NODE_ENV = "production";
  // Not everything that runs Berth has what builds the console.
  const { build } = await import("vite");
  await build({
    root: here,
    configFile: false,
    base: "/console/",
    logLevel: "error",
    build: {
      outDir,
      emptyOutDir: true,
      target: "es2022",
      // The policy of the pages allows nothing that is inline.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
    },
  });
}

async function compress(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => COMPRESSED.test(name));
  await Promise.all(
    names.map(async (name) => {
      const file = join(folder, name);
      const bytes = await readFile(file);
      const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
      await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, { params }));
      await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: 9 }));
    }),
  );
}

async function digestOf(paths: string[]): Promise<string> {
  const hash = createHash("sha256");
  for (const path of paths) await addTo(hash, join(root, path), path);
  return hash.digest("hex");
}

async function addTo(hash: Hash, path: string, name: string): Promise<void> {
  const entries = await readdir(path, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOTDIR") return undefined;
    throw error;
  });
  if (!entries) return void hash.update(`${name}\0`).update(await readFile(path));
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1)))
    if (!/^dist|^node_modules$|\.md$/.test(entry.name))
      await addTo(hash, join(path, entry.name), `${name}/${entry.name}`);
}
