import { readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { readdir, readlink, realpath, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { BuildFailure } from "../build-failure.ts";
import type { BuildPlan, DetectionInput, SourceTree } from "../detect/build-plan.ts";
import { detectRuntime } from "../detect/detect.ts";
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
    if (!built && isWorkspaceMember(whole, path))
      return detectRuntime(whole, { ...input, rootDirectory: path });
    await liftFolder(app, path);
    log(`The folder ${path} is the root of what is built.`);
    return detectRuntime(readTree(app), rest);
  }
  try {
    return detectRuntime(readTree(app), rest);
  } catch (error) {
    const [only, ...others] = readdirSync(app, { withFileTypes: true });
    const notFound = error instanceof BuildFailure && error.code === "runtime_not_detected";
    if (!notFound || others.length > 0 || !only?.isDirectory()) throw error;
    const plan = detectRuntime(readTree(join(app, only.name)), rest);
    log(`The whole source is in the folder ${only.name}, which becomes its root.`);
    await liftFolder(app, only.name);
    return plan;
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

export function readTree(root: string): SourceTree {
  const isFile = (path: string) => statSync(join(root, path), { throwIfNoEntry: false })?.isFile() ?? false;
  return {
    exists: (path) => !path.split("/").includes("..") && isFile(path),
    read: (path) => (isFile(path) ? readManifest(root, path) : undefined),
    folders: (path) => listFolders(join(root, path)),
  };
}

/** Larger than any file that says how to build; what it says is read into memory as a whole. */
const MAX_MANIFEST_BYTES = 32 * 1024 ** 2;

function readManifest(root: string, path: string): string {
  const file = join(root, path);
  if (statSync(file).size <= MAX_MANIFEST_BYTES) return readFileSync(file, "utf8");
  throw new BuildFailure("detect", "source_invalid", `The file ${path} is larger than 32 MiB.`);
}

function listFolders(path: string): string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch {
    return [];
  }
}
