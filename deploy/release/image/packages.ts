import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { createGunzip } from "node:zlib";
import { run, runInto } from "../run.ts";
import { nodeVersion, type Platform } from "../settings.ts";
import { type Entry, readFolder, readTar } from "../tar.ts";

/** Returns Node's program for a platform, out of the npm package that has it, whose content is pinned. */
export async function nodeFiles({ npm, nodeIntegrity }: Platform, work: string): Promise<Entry[]> {
  const name = `node-linux-${npm}@${nodeVersion}`;
  const folder = join(work, `node-${npm}`);
  await mkdir(folder);
  const [packed] = JSON.parse(await run("npm", ["pack", "--json", name], { cwd: folder })) as {
    filename: string;
  }[];
  const file = join(folder, packed!.filename);
  const integrity = `sha512-${createHash("sha512")
    .update(await readFile(file))
    .digest("base64")}`;
  if (integrity !== nodeIntegrity) throw new Error(`${name} is not the expected file (${integrity})`);
  const entries = await readTar(createReadStream(file).pipe(createGunzip()));
  const take = (from: string, path: string, mode: number): Entry => {
    const found = entries.find((entry) => entry.path === from);
    if (found?.kind !== "file") throw new Error(`${name} has no ${from}`);
    return { kind: "file", path, mode, data: found.data };
  };
  return [
    take("package/bin/node", "usr/local/bin/node", 0o755),
    take("package/LICENSE", "usr/local/share/doc/node/LICENSE", 0o644),
  ];
}

/** Returns files of the commit below `prefix`, without those that images do not take (`.dockerignore`). */
export async function committed(root: string, paths: string[], prefix = ""): Promise<Entry[]> {
  const archive = ["archive", "--format=tar", "HEAD", "--", ...paths];
  const entries = await runInto("git", archive, root, readTar);
  return entries
    .filter(({ kind }) => kind !== "folder")
    .map((entry) => ({ ...entry, mode: entry.mode & 0o111 ? 0o755 : 0o644, path: prefix + entry.path }));
}

/** Writes entries into a folder, for programs that build from them. */
export async function unpackCommitted(root: string, paths: string[], folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const archive = join(folder, ".archive.tar");
  await run("git", ["archive", "--format=tar", "-o", archive, "HEAD", "--", ...paths], { cwd: root });
  await run("tar", ["xf", archive, "-C", folder]);
  await run("rm", [archive]);
}

const MANIFESTS = [".npmrc", "package.json", "package-lock.json", ":(glob)**/package.json"];

/** Returns the npm packages of the gateway and the services for a platform, and npm's record of them. */
export async function npmFiles(root: string, { npm }: Platform, work: string) {
  const folder = join(work, `packages-${npm}`);
  await unpackCommitted(root, MANIFESTS, folder);
  const target = ["--os=linux", `--cpu=${npm}`, "--libc=glibc"];
  await run("npm", ["ci", "--omit=dev", "--workspace", "services", "--workspace", "gateway", ...target], {
    cwd: folder,
  });
  const record = await readFile(join(folder, "node_modules/.package-lock.json"), "utf8");
  return { entries: await readFolder(join(folder, "node_modules"), "app/node_modules"), record };
}

/** Builds the console. Returns its files and npm's record of what it was built with. */
export async function consoleFiles(root: string, work: string) {
  const folder = join(work, "console");
  const sources = ["tsconfig.json", "clients/typescript/src", "clients/pack", "clients/console"];
  await unpackCommitted(root, [...MANIFESTS, ...sources], folder);
  await run("npm", ["ci", "--workspace", "clients/console"], { cwd: folder });
  await run(process.execPath, ["clients/console/build/main.ts"], { cwd: folder });
  const record = await readFile(join(folder, "node_modules/.package-lock.json"), "utf8");
  const built = await readFolder(join(folder, "clients/console/dist"), "app/clients/console/dist");
  const list: Entry = {
    kind: "file",
    path: "app/clients/console/packages.json",
    mode: 0o644,
    data: Buffer.from(record),
  };
  return { entries: [...built, list], record };
}
