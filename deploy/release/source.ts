import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "./run.ts";

/** What a release is made of: a commit, whose date every file of the release has. */
export type Source = { root: string; version: string; revision: string; date: Date };

/** Reads the commit that is checked out. Throws where the parts of the release have different versions. */
export async function readSource(root: string): Promise<Source> {
  const [revision, seconds] = (await run("git", ["log", "-1", "--format=%H %ct"], { cwd: root }))
    .trim()
    .split(" ");
  const version = await versionIn(join(root, "package.json"));
  for (const part of ["clients/cli", "clients/typescript"]) {
    const other = await versionIn(join(root, part, "package.json"));
    if (other !== version)
      throw new Error(`${part}/package.json has version ${other}, package.json ${version}.`);
  }
  return { root, version, revision: revision!, date: new Date(Number(seconds) * 1000) };
}

async function versionIn(file: string): Promise<string> {
  return (JSON.parse(await readFile(file, "utf8")) as { version: string }).version;
}

/** Throws unless this machine has the programs that a release is made with. */
export async function requireTools(): Promise<void> {
  const missing: string[] = [];
  for (const name of ["git", "mmdebstrap", "npm", "tar"])
    await run(name, ["--version"]).catch(() => missing.push(name));
  if (process.platform !== "linux" || missing.length > 0)
    throw new Error(
      `A release is made on Linux with git, npm, GNU tar and mmdebstrap. Missing: ${missing.join(", ")}.`,
    );
}

/** Throws unless the working tree is what is committed, so that the commit says what a release is made of. */
export async function requireClean(root: string): Promise<void> {
  const changes = await run("git", ["status", "--porcelain"], { cwd: root });
  if (changes !== "")
    throw new Error(
      `A release is made of a commit. Commit or remove these changes first:\n${changes.trimEnd()}`,
    );
}
