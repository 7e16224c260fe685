import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { noWalls, type Walls } from "../../../kit/process/walls.ts";
import {
  type ArtifactManifest,
  artifactFolders,
  directoryArtifact,
  readManifest,
} from "../../runtime/local/artifact.ts";
import { replaceFile } from "../../shared/replace-file.ts";
import { type ObjectStore, ObjectStoreError } from "../../store/port.ts";
import { buildEnvironment, hasProgram } from "../build-environment.ts";
import { archiveChanged, archiveMissing, toBuildFailure } from "../build-failure.ts";
import { type BuildPlan, STATIC_SERVER_FILE } from "../detect/build-plan.ts";
import type { BuildRequest, BuildResult, BuildRuntime } from "../port.ts";
import { logSiteVariables } from "../site-variables.ts";
import { placeArchive, placeCommit } from "../source/place-source.ts";
import { planBuild } from "../source/source-root.ts";
import type { DependencyCache } from "./dependency-cache.ts";
import { runPlan } from "./run-plan.ts";

export type LocalBuilderOptions = {
  /** Contains one folder for each build, its artifact. The local runtime runs apps in these folders. */
  folder: string;
  store: ObjectStore;
  /** The environment of which builds see a part: `process.env`. */
  environment: NodeJS.ProcessEnv;
  /** What the commands of a build are run behind. */
  walls?: Walls;
};

/**
 * Builds into the build's folder, after `removeBuild` has removed what an earlier try left there. When it throws,
 * nothing of the build is left.
 */
export async function buildFolder(
  { folder: root, store, environment, walls = noWalls }: LocalBuilderOptions,
  cache: DependencyCache,
  request: BuildRequest,
  signal: AbortSignal,
  removeBuild: () => Promise<void>,
): Promise<BuildResult> {
  const { buildId, onStage, log } = request;
  const { folder, app } = artifactFolders(root, buildId);
  const tmp = join(folder, "tmp");
  await removeBuild();
  try {
    for (const one of [app, tmp]) mkdirSync(one, { recursive: true, mode: 0o700 });
    // Without one here, Node.js would apply the nearest package.json above the folder to the app.
    writeFileSync(join(folder, "package.json"), "{}");
    onStage("Fetching source");
    const env = buildEnvironment(environment, tmp);
    const commit = await placeSource(store, request, { app, tmp, env }, signal);
    onStage("Detecting runtime");
    const input = { ...request, hasTool: (name: string) => hasProgram(name, env.PATH!) };
    const plan = await planBuild(input, app, log);
    log(plan.because);
    logSiteVariables(request.site, log);
    onStage("Building image");
    const sight = { cwd: app, write: [folder], tmp, home: true };
    const behind = (argv: string[]) => walls(argv, sight);
    const seen = { ...request.site?.values, ...env };
    await runPlan(plan, cache, request, { cwd: app, env: seen, folder: tmp, behind }, signal);
    signal.throwIfAborted();
    finishArtifact(root, buildId, plan, commit);
    log(plan.command === undefined ? "Built." : `Built. It starts with: ${plan.command}`);
    await rm(tmp, { recursive: true, force: true });
    return readResult(root, buildId)!;
  } catch (error) {
    await removeBuild();
    signal.throwIfAborted();
    throw toBuildFailure(error);
  }
}

/** Puts the source into `app`; returns the commit of a git source. */
async function placeSource(
  store: ObjectStore,
  request: BuildRequest,
  folders: { app: string; tmp: string; env: Record<string, string> },
  signal: AbortSignal,
): Promise<string | undefined> {
  const { source } = request;
  if (source.kind === "git") return placeCommit(source, { ...request, ...folders }, signal);
  const stat = await store.stat(source.key);
  if (!stat) throw archiveMissing();
  const archive = await store.get(source.key, source.digest).catch((error) => {
    throw error instanceof ObjectStoreError && error.code === "object_changed" ? archiveChanged() : error;
  });
  await placeArchive(archive, stat.size, { ...request, ...folders }, signal);
  return undefined;
}

/** Writes the manifest last: a folder that has one is a finished artifact. */
function finishArtifact(root: string, buildId: string, plan: BuildPlan, commit: string | undefined): void {
  const { folder, manifest } = artifactFolders(root, buildId);
  if (plan.site !== undefined)
    copyFileSync(join(import.meta.dirname, "../static-server.ts"), join(folder, STATIC_SERVER_FILE));
  const { runtime, command, path } = plan;
  const content: ArtifactManifest = {
    runtime,
    path,
    ...(command !== undefined && { command }),
    ...(commit !== undefined && { commit }),
  };
  replaceFile(manifest, JSON.stringify(content));
}

/** Returns the result of a finished build; undefined when there is none of this id. */
export function readResult(root: string, buildId: string): BuildResult | undefined {
  const manifest = readManifest(root, buildId);
  if (!manifest) return undefined;
  return {
    artifact: directoryArtifact(buildId),
    command: manifest.command,
    runtime: manifest.runtime as BuildRuntime,
    ...(manifest.commit !== undefined && { commit: manifest.commit }),
  };
}
