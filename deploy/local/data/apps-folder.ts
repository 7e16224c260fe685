import { randomBytes } from "node:crypto";
import type { Stats } from "node:fs";
import { access, cp, lstat, mkdir, readFile, readlink, rename, rm, symlink } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join } from "node:path";
import { StartFailure } from "../failure.ts";
import { endOrphan, findByWorkingDirectory } from "../processes/process-table.ts";
import type { DataFolder } from "./data-folder.ts";
import { writeSafely } from "./secrets.ts";

/**
 * What tools look for in the folders above the one they work in. An app below such a file would be built and run as a
 * part of somebody else's project: with its packages, settings or versions.
 */
const PROJECT_FILES = [
  ...["node_modules", "package.json", "pnpm-workspace.yaml", ".pnp.cjs", ".yarnrc", ".yarnrc.yml", ".npmrc"],
  ...["tsconfig.json", "jsconfig.json", ".nvmrc", ".node-version"],
  ...["pyproject.toml", "setup.cfg", ".python-version", ".venv", "go.mod", "go.work"],
  ...[".git", ".env", ".tool-versions", "mise.toml"],
];

/** What is kept there, in folders of these names. */
const CONTENT = ["artifacts", "artifacts-cache", "runtime"];

/** Says in the apps' folder whose data folder it belongs to. */
const OWNER = "data-folder";

/**
 * Returns the folder of builds and running apps, above which no project lies: `deployer` in the data folder, else one of
 * the user's state folder (XDG_STATE_HOME), to which the link `apps` in the data folder leads. What was built and runs in
 * another place is moved there. `say` is called with a sentence for the user where that matters.
 */
export async function placeApps(
  folder: DataFolder,
  say: (sentence: string) => void,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  const linked = await readlink(folder.apps).catch(() => undefined);
  const left = linked === undefined ? undefined : await takeLinked(folder, linked, say);
  if (left === undefined && linked === undefined) {
    const seen = await projectAbove(folder.dir);
    if (seen === undefined) return folder.deployer;
    const state = stateFolder(env);
    const seenThere = await projectAbove(state);
    if (seenThere !== undefined) {
      say(
        `Apps can see ${seen}, because their folder is below it. To avoid this, use --data with a folder that has no such files above it.`,
      );
      return folder.deployer;
    }
  }
  const apps = left ?? (await makeLinked(folder, stateFolder(env)));
  for (const name of CONTENT) await moveContent(folder, name, apps);
  return apps;
}

/** Deletes the apps' folder that the data folder's link leads to, if it is its own. */
export async function removeApps(folder: DataFolder): Promise<void> {
  const linked = await readlink(folder.apps).catch(() => undefined);
  if (linked !== undefined && (await ownerOf(linked)) === folder.dir) {
    await endAppsIn(linked);
    await rm(linked, { recursive: true, force: true });
  }
  await rm(folder.apps, { force: true });
}

/** Ends what still runs there after its launcher and its deployer were killed. */
export async function endAppsIn(dir: string): Promise<void> {
  for (const pid of await findByWorkingDirectory(dir)) await endOrphan(pid, () => true, "SIGTERM", 2_000);
}

/** Returns the path of the first thing above a folder that tools would take for the project of what lies in it. */
export async function projectAbove(dir: string, home = homedir()): Promise<string | undefined> {
  for (let above = dirname(dir); ; above = dirname(above)) {
    // Hidden files there are the user's own settings, which hold for all of their projects.
    const names = above === home ? PROJECT_FILES.filter((name) => !name.startsWith(".")) : PROJECT_FILES;
    for (const name of names) if (await exists(join(above, name))) return join(above, name);
    if (above === dirname(above)) return undefined;
  }
}

function stateFolder(env: NodeJS.ProcessEnv): string {
  const { XDG_STATE_HOME: state = "" } = env;
  return join(isAbsolute(state) ? state : join(homedir(), ".local/state"), "berth");
}

/** Makes a folder in `state`, and then the link to it: a folder to which no link leads is nobody's. */
async function makeLinked(folder: DataFolder, state: string): Promise<string> {
  const name = `${basename(dirname(folder.dir))}-${randomBytes(4).toString("hex")}`;
  const apps = join(state, name);
  try {
    await mkdir(apps, { recursive: true, mode: 0o700 });
    await writeSafely(join(apps, OWNER), folder.dir);
  } catch (cause) {
    const why = `${apps} cannot be created for builds and apps (${(cause as Error).message}).`;
    const sentence = `${why} Set XDG_STATE_HOME to a writable folder, or use --data with a folder outside of any project.`;
    throw new StartFailure("cannotRun", sentence, { cause });
  }
  await symlink(apps, `${folder.apps}.new`);
  await rename(`${folder.apps}.new`, folder.apps);
  return apps;
}

/**
 * Returns the folder that the link leads to if it is this data folder's. It stays with a data folder that was moved, and
 * with the original of one that was copied: the copy gets a copy.
 */
async function takeLinked(
  folder: DataFolder,
  linked: string,
  say: (sentence: string) => void,
): Promise<string | undefined> {
  const owner = await ownerOf(linked);
  if (owner === folder.dir) return linked;
  if (owner === undefined) {
    say(`${linked}, the folder of builds, no longer exists: deploy services again.`);
    return undefined;
  }
  if ((await readlink(join(owner, basename(folder.apps))).catch(() => undefined)) !== linked) {
    await writeSafely(join(linked, OWNER), folder.dir);
    return linked;
  }
  const copy = await makeLinked(folder, dirname(linked));
  await copyFolder(join(linked, "artifacts"), join(copy, "artifacts"));
  return copy;
}

/**
 * Moves one folder of the deployer's to the apps' folder, and leaves a link: programs of Python's environments name each
 * other by their paths. May be interrupted and repeated.
 */
async function moveContent(folder: DataFolder, name: string, apps: string): Promise<void> {
  const from = join(folder.deployer, name);
  const to = join(apps, name);
  const found = await lstat(from).catch(() => undefined);
  if (!found?.isDirectory()) return;
  await endAppsIn(from);
  if (!(await exists(to))) await rename(from, to).catch(() => copyFolder(from, to)); // on another file system
  await rm(from, { recursive: true, force: true });
  if (name === "artifacts") await symlink(to, from);
}

/** Copies a folder, with links and times as they are; it is there once all of it is. */
async function copyFolder(from: string, to: string): Promise<void> {
  if (!(await exists(from))) return;
  await rm(`${to}.new`, { recursive: true, force: true });
  const filter = async (path: string) => isKept(await lstat(path));
  await cp(from, `${to}.new`, {
    recursive: true,
    preserveTimestamps: true,
    verbatimSymlinks: true,
    filter,
  });
  await rename(`${to}.new`, to);
}

/** Sockets and pipes, which apps leave behind, cannot be copied and are of no use without their process. */
const isKept = (found: Stats) => found.isFile() || found.isDirectory() || found.isSymbolicLink();

async function ownerOf(apps: string): Promise<string | undefined> {
  return readFile(join(apps, OWNER), "utf8").catch(() => undefined);
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
