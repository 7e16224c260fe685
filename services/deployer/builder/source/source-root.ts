import { type Dirent, readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { readdir, readlink, realpath, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { BuildFailure } from "../build-failure.ts";
import type { BuildPlan, DetectionInput, SourceTree } from "../detect/build-plan.ts";
import { detectRuntime, hintAt, planUndetected } from "../detect/detect.ts";
import { isWorkspaceMember } from "../detect/node.ts";
import { checkLink } from "./archive/path.ts";

/**
 * Returns the plan for the source in `app`. Its root becomes the folder `rootDirectory`, unless that is a package of a
 * workspace, of which a build needs the whole; without one, and when nothing is detected in the root, the only folder
 * there is. Throws `BuildFailure`.
 */
export async function planBuild(
  input: DetectionInput,
  app: string,
  log: (line: string) => void,
): Promise<BuildPlan> {
  const { rootDirectory, ...rest } = input;
  if (rootDirectory !== undefined) {
    const whole = readTree(app);
    const path = await findFolder(app, rootDirectory);
    const dockerfile = `${path}/${input.dockerfile ?? "Dockerfile"}`;
    const built = input.containers && whole.exists(dockerfile);
    const asMember = !built && input.builder !== "buildpacks";
    if (asMember && isWorkspaceMember(whole, path))
      return detectRuntime(whole, { ...input, rootDirectory: path });
    await liftFolder(app, path);
    log(`The folder ${path} is the root of what is built.`);
    return detectOrHint(app, rest, path) ?? planUndetected(rest, listBuildable(app, rest, path));
  }
  const [only, ...others] = readdirSync(app, { withFileTypes: true });
  const folder = others.length === 0 && only?.isDirectory() ? only.name : undefined;
  // Buildpacks take any root: they come in where the only folder is.
  const inRoot = folder !== undefined && rest.builder === "buildpacks" ? undefined : detectOrHint(app, rest);
  if (inRoot) return inRoot;
  if (folder === undefined) return planUndetected(rest, listBuildable(app, rest));
  const inside = join(app, folder);
  const plan =
    detectOrHint(inside, rest, folder) ?? planUndetected(rest, listBuildable(inside, rest, folder));
  log(`The whole source is in the folder ${folder}, which becomes its root.`);
  await liftFolder(app, folder);
  return plan;
}

const MAX_NAMED = 5;
const MAX_TRIED = 50;

/** Returns the first folders in which something is detected, as paths from the source's root; `parent` is where `root` is. */
function listBuildable(root: string, input: DetectionInput, parent = ""): string[] {
  const names = listFolders(root).filter((name) => !name.startsWith(".") && name !== "node_modules");
  const budget = newBudget();
  const isBuildable = (name: string) => {
    try {
      return detect(join(root, name), { ...input, builder: "auto" }, budget) !== undefined;
    } catch {
      return true; // it is recognised, and its own problem is said once it is the root
    }
  };
  const found = names.toSorted().slice(0, MAX_TRIED).filter(isBuildable);
  return found.slice(0, MAX_NAMED).map((name) => (parent ? `${parent}/${name}` : name));
}

/** As `detect`. Where nothing says how the root starts, the failure names the folders that can be built. */
function detectOrHint(root: string, input: DetectionInput, parent?: string): BuildPlan | undefined {
  try {
    return detect(root, input);
  } catch (error) {
    const isUnstarted = error instanceof BuildFailure && error.code === "start_command_missing";
    if (!isUnstarted || error.message.includes("config.rootDirectory")) throw error;
    const hint = hintAt(listBuildable(root, input, parent));
    throw new BuildFailure(error.stage, error.code, `${error.message}${hint}`);
  }
}

/** Returns undefined when nothing is detected. */
function detect(root: string, input: DetectionInput, budget?: Budget): BuildPlan | undefined {
  try {
    return detectRuntime(readTree(root, budget), input);
  } catch (error) {
    if (error instanceof BuildFailure && error.code === "runtime_not_detected") return undefined;
    throw error;
  }
}

/** Returns the path of a folder in `app` that no link leads to; throws when there is none. */
async function findFolder(app: string, folder: string): Promise<string> {
  const path = folder
    .split("/")
    .filter((one) => one !== "" && one !== ".")
    .join("/");
  const real = await realpath(join(app, path)).catch(() => undefined);
  if (path !== "" && real === join(await realpath(app), path) && statSync(real).isDirectory()) return path;
  throw new BuildFailure(
    "detect",
    "root_directory_missing",
    `The source has no folder ${folder}, which the service's config.rootDirectory names.`,
  );
}

/** Replaces `app` by its folder at `path`; throws when a link in the folder leads out of it. */
async function liftFolder(app: string, path: string): Promise<void> {
  const folder = join(app, path);
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const link = join(entry.parentPath, entry.name);
    checkLink(relative(folder, link), await readlink(link));
  }
  renameSync(app, `${app}.whole`);
  renameSync(join(`${app}.whole`, path), app);
  await rm(`${app}.whole`, { recursive: true });
}

/** How many bytes detection still reads of a source: its event loop waits meanwhile. */
type Budget = { manifests: number; locks: number };

/** More than people write into the files that say how to build a source; programs write lock files at length. */
const MAX_MIB = { manifests: 4, locks: 32 };
const LOCK_FILE = /(^|\/)(pnpm-lock\.yaml|yarn\.lock|package-lock\.json|npm-shrinkwrap\.json|bun\.lock)$/;
const TOO_LARGE = `too large: files that say how to build a source have at most ${MAX_MIB.manifests} MiB together, and lock files ${MAX_MIB.locks} MiB`;

const newBudget = (): Budget => ({
  manifests: MAX_MIB.manifests * 1024 ** 2,
  locks: MAX_MIB.locks * 1024 ** 2,
});

/** Returns the files of a folder. A file counts once, however often it is read. */
export function readTree(root: string, budget = newBudget()): SourceTree {
  const isFile = (path: string) => statSync(join(root, path), { throwIfNoEntry: false })?.isFile() ?? false;
  const known = new Map<string, string>();
  const read = (path: string) => {
    const text = known.get(path) ?? readText(root, path, budget);
    known.set(path, text);
    return text;
  };
  return {
    exists: (path) => !path.split("/").includes("..") && isFile(path),
    read: (path) => (isFile(path) ? read(path) : undefined),
    folders: (path) => listFolders(join(root, path)),
    files: (path) => listEntries(join(root, path), (entry) => entry.isFile()),
  };
}

function readText(root: string, path: string, budget: Budget): string {
  const file = join(root, path);
  const kind = LOCK_FILE.test(path) ? "locks" : "manifests";
  budget[kind] -= statSync(file).size;
  if (budget[kind] < 0)
    throw new BuildFailure("detect", "source_invalid", `The file ${path} is ${TOO_LARGE}.`);
  return readFileSync(file, "utf8");
}

function listFolders(path: string): string[] {
  return listEntries(path, (entry) => entry.isDirectory());
}

function listEntries(path: string, which: (entry: Dirent) => boolean): string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries.filter(which).map(({ name }) => name);
  } catch {
    return [];
  }
}
