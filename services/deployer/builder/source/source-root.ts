import { readdirSync, readFileSync, renameSync, rmdirSync, statSync } from "node:fs";
import { readdir, readlink } from "node:fs/promises";
import { join, relative } from "node:path";
import { type BuildPlan, detectRuntime, type SourceTree, type Wanted } from "../detect/detect.ts";
import { BuildFailure } from "../port.ts";
import { checkLink } from "./archive-path.ts";

/** What is detected in the root of the source, or in the one folder that it consists of. */
export async function planFor(wanted: Wanted, app: string, log: (line: string) => void): Promise<BuildPlan> {
  try {
    return detectRuntime(treeOf(app), wanted);
  } catch (error) {
    const [only, ...others] = readdirSync(app, { withFileTypes: true });
    const notFound = error instanceof BuildFailure && error.code === "runtime_not_detected";
    if (!notFound || others.length > 0 || !only?.isDirectory()) throw error;
    const plan = detectRuntime(treeOf(join(app, only.name)), wanted);
    log(`All of the source lies in the folder ${only.name}: that is taken as its root.`);
    await liftFolder(app, only.name);
    return plan;
  }
}

/** Puts the folder `name` of `app` in the place of `app`, if no link in it leads out of it. */
async function liftFolder(app: string, name: string): Promise<void> {
  const folder = join(app, name);
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    checkLink(relative(folder, path), await readlink(path));
  }
  renameSync(app, `${app}.whole`);
  renameSync(join(`${app}.whole`, name), app);
  rmdirSync(`${app}.whole`);
}

export function treeOf(root: string): SourceTree {
  const isFile = (path: string) => statSync(join(root, path), { throwIfNoEntry: false })?.isFile() ?? false;
  return {
    exists: (path) => !path.split("/").includes("..") && isFile(path),
    read: (path) => (isFile(path) ? readFileSync(join(root, path), "utf8") : undefined),
  };
}
