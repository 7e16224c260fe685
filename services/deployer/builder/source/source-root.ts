import { readdirSync, readFileSync, renameSync, rmdirSync, statSync } from "node:fs";
import { readdir, readlink } from "node:fs/promises";
import { join, relative } from "node:path";
import { BuildFailure } from "../build-failure.ts";
import type { BuildPlan, DetectionInput, SourceTree } from "../detect/build-plan.ts";
import { detectRuntime } from "../detect/detect.ts";
import { checkLink } from "./archive/path.ts";

/**
 * Returns the plan for the source in `app`. When nothing is detected in its root and the source is a single folder,
 * that folder becomes the root. Throws `BuildFailure`.
 */
export async function planBuild(
  input: DetectionInput,
  app: string,
  log: (line: string) => void,
): Promise<BuildPlan> {
  try {
    return detectRuntime(readTree(app), input);
  } catch (error) {
    const [only, ...others] = readdirSync(app, { withFileTypes: true });
    const notFound = error instanceof BuildFailure && error.code === "runtime_not_detected";
    if (!notFound || others.length > 0 || !only?.isDirectory()) throw error;
    const plan = detectRuntime(readTree(join(app, only.name)), input);
    log(`The whole source is in the folder ${only.name}, which becomes its root.`);
    await liftFolder(app, only.name);
    return plan;
  }
}

/** Replaces `app` by its folder `name`; throws when a link in the folder leads out of it. */
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

export function readTree(root: string): SourceTree {
  const isFile = (path: string) => statSync(join(root, path), { throwIfNoEntry: false })?.isFile() ?? false;
  return {
    exists: (path) => !path.split("/").includes("..") && isFile(path),
    read: (path) => (isFile(path) ? readFileSync(join(root, path), "utf8") : undefined),
  };
}
