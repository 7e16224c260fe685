import { copyFileSync, existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  type ArtifactManifest,
  artifactFolders,
  directoryArtifact,
  directoryBuildId,
  readManifest,
} from "../../runtime/local/artifact.ts";
import { endProcesses } from "../../shared/process-tree.ts";
import { type ObjectStore, ObjectStoreError } from "../../store/port.ts";
import { buildEnvironment, hasProgram } from "../build-environment.ts";
import { type BuildPlan, type BuildStep, STATIC_SERVER_FILE } from "../detect/detect.ts";
import {
  type ArchiveSource,
  archiveChanged,
  type Builder,
  BuildFailure,
  type BuildRequest,
  type BuildResult,
  type BuildRuntime,
} from "../port.ts";
import { type CommandContext, runCommand } from "../run-command.ts";
import { fetchGit } from "../source/git-fetch.ts";
import { planFor } from "../source/source-root.ts";
import { unpackArchive } from "../source/unpack.ts";
import { diskFull, toBuildFailure, withTimeLimit } from "../time-limit.ts";
import { createDependencyCache, type DependencyCache } from "./dependency-cache.ts";

type LocalBuilderOptions = {
  /** Holds one folder for each build, its artifact. The local runtime runs apps in them. */
  folder: string;
  store: ObjectStore;
  /** What builds may see a part of; `process.env`. */
  environment: NodeJS.ProcessEnv;
};

type Running = {
  stop: AbortController;
  done: Promise<unknown>;
};

/** Builds on this machine, with the rights of this process: for development, nothing isolates a build. */
export function createLocalBuilder(given: LocalBuilderOptions): Builder {
  const options = { ...given, folder: resolve(given.folder) };
  const running = new Map<string, Running>();
  const cache = createDependencyCache(`${options.folder}-cache`);

  /** Ends the build of this id, in this process or left by a killed one, and removes its folder. */
  async function clear(buildId: string): Promise<void> {
    const { folder } = artifactFolders(options.folder, buildId);
    if (!existsSync(folder)) return; // it goes last, after the processes
    await endProcesses(undefined, join(folder, "tmp"), () => 0);
    await rm(folder, { recursive: true, force: true });
  }

  async function stop(buildId: string): Promise<void> {
    const current = running.get(buildId);
    current?.stop.abort(new Error("the build was discarded"));
    await current?.done.catch(() => {});
  }

  return {
    async build(request, signal) {
      checkId(request.buildId);
      await stop(request.buildId);
      signal.throwIfAborted();
      const finished = resultOf(options.folder, request.buildId);
      if (finished) return finished;
      const own = new AbortController();
      const done = withTimeLimit(request, AbortSignal.any([signal, own.signal]), (guard, log) =>
        buildOnce(options, cache, { ...request, log }, guard, () => clear(request.buildId)),
      );
      running.set(request.buildId, { stop: own, done });
      return done.finally(() => running.delete(request.buildId));
    },
    async discard(buildId) {
      checkId(buildId);
      await stop(buildId);
      await clear(buildId);
    },
    async removeArtifact(artifact) {
      const buildId = directoryBuildId(artifact);
      if (buildId !== undefined)
        await rm(artifactFolders(options.folder, buildId).folder, { recursive: true, force: true });
    },
    removeCaches: cache.remove,
  };
}

async function buildOnce(
  { folder: root, store, environment }: LocalBuilderOptions,
  cache: DependencyCache,
  request: BuildRequest,
  signal: AbortSignal,
  clear: () => Promise<void>,
): Promise<BuildResult> {
  const { buildId, onStage, log } = request;
  const { folder, app } = artifactFolders(root, buildId);
  const tmp = join(folder, "tmp");
  await clear();
  try {
    for (const one of [app, tmp]) mkdirSync(one, { recursive: true, mode: 0o700 });
    // Without it node would take the nearest package.json above for the app's.
    writeFileSync(join(folder, "package.json"), "{}");
    onStage("Fetching source");
    const env = buildEnvironment(environment, tmp);
    const commit = await fetchSource(store, request, { app, tmp, env }, signal);
    onStage("Detecting runtime");
    const wanted = { ...request, hasTool: (name: string) => hasProgram(name, env.PATH!) };
    const plan = await planFor(wanted, app, log);
    log(plan.because);
    onStage("Building image");
    await runPlan(plan, cache, request, { cwd: app, env, folder: tmp }, signal);
    signal.throwIfAborted();
    finish(root, buildId, plan, commit);
    log(plan.command === undefined ? "Built." : `Built. It starts with: ${plan.command}`);
    await rm(tmp, { recursive: true, force: true });
    return resultOf(root, buildId)!;
  } catch (error) {
    await clear();
    signal.throwIfAborted();
    throw toBuildFailure(error);
  }
}

/** Puts the source into `app`; gives the commit of a git source. */
async function fetchSource(
  store: ObjectStore,
  request: BuildRequest,
  { app, tmp, env }: { app: string; tmp: string; env: Record<string, string> },
  signal: AbortSignal,
): Promise<string | undefined> {
  const { source, limits, timeoutMs, log } = request;
  if (source.kind === "archive") {
    await fetchArchive(store, request, source, { app, tmp }, signal);
    return undefined;
  }
  log(`Fetching the branch ${source.branch} of ${source.repository}`);
  const fetched = await fetchGit({ source, target: app, tmp, env, limits, timeoutMs }, signal);
  request.onCommit?.(fetched.commit);
  log(`Its newest commit is ${fetched.commit}: ${fetched.entries} entries, ${fetched.bytes} bytes.`);
  return fetched.commit;
}

async function fetchArchive(
  store: ObjectStore,
  request: BuildRequest,
  { key, digest }: ArchiveSource,
  { app, tmp }: { app: string; tmp: string },
  signal: AbortSignal,
): Promise<void> {
  const stat = await store.stat(key);
  if (!stat)
    throw new BuildFailure(
      "source",
      "archive_missing",
      "The uploaded archive is no longer there; upload it again.",
    );
  const archive = await store.get(key, digest).catch((error) => {
    throw error instanceof ObjectStoreError && error.code === "object_changed" ? archiveChanged() : error;
  });
  const options = { limits: request.limits, tmp };
  const { entries, bytes, skipped } = await unpackArchive(archive, app, options, signal);
  request.log(`Unpacked ${entries} entries, ${bytes} bytes, from an archive of ${stat.size} bytes.`);
  if (skipped > 0) request.log(`Left out ${skipped} “._” entries, which only macOS uses.`);
}

/** Installs, or takes what an earlier build of the service installed from the same lock file; then builds. */
async function runPlan(
  plan: BuildPlan,
  cache: DependencyCache,
  { serviceId, log }: BuildRequest,
  place: CommandContext,
  signal: AbortSignal,
): Promise<void> {
  const installs = plan.steps.filter((step) => step.failure === "install_failed");
  const entry = await cache.entryFor(serviceId, plan, place, signal);
  if (entry && (await entry.restore(signal))) {
    log(`The dependencies are those of an earlier build: ${entry.unchanged} did not change.`);
    await runSteps(plan.dependencies!.afterRestore, place, log, signal);
  } else {
    await runSteps(installs, place, log, signal);
    await entry?.store(signal);
  }
  await runSteps(
    plan.steps.filter((step) => !installs.includes(step)),
    place,
    log,
    signal,
  );
}

async function runSteps(
  steps: BuildStep[],
  place: CommandContext,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  for (const { run, failure } of steps) {
    const shown = run.join(" ");
    log(`$ ${shown}`);
    let outOfSpace = false;
    const watchLine = (line: string) => {
      outOfSpace ||= /\bENOSPC\b|no space left on device/i.test(line);
      log(line);
    };
    const code = await runCommand(run, place, watchLine, signal);
    if (code !== 0 && outOfSpace) throw diskFull();
    if (code !== 0)
      throw new BuildFailure(
        "build",
        failure,
        `“${shown}” ended with exit code ${code}; the build log says why.`,
      );
  }
}

/** The manifest comes last: a folder that has one is a finished artifact. */
function finish(root: string, buildId: string, plan: BuildPlan, commit: string | undefined): void {
  const { folder, manifest } = artifactFolders(root, buildId);
  if (plan.needsStaticServer)
    copyFileSync(join(import.meta.dirname, "../static-server.ts"), join(folder, STATIC_SERVER_FILE));
  const { runtime, command, path } = plan;
  const content: ArtifactManifest = {
    runtime,
    path,
    ...(command !== undefined && { command }),
    ...(commit !== undefined && { commit }),
  };
  writeFileSync(`${manifest}.new`, JSON.stringify(content));
  renameSync(`${manifest}.new`, manifest);
}

function resultOf(root: string, buildId: string): BuildResult | undefined {
  const manifest = readManifest(root, buildId);
  if (!manifest) return undefined;
  return {
    artifact: directoryArtifact(buildId),
    command: manifest.command,
    runtime: manifest.runtime as BuildRuntime,
    ...(manifest.commit !== undefined && { commit: manifest.commit }),
  };
}

function checkId(buildId: string): void {
  if (directoryBuildId(directoryArtifact(buildId)) === undefined)
    throw new Error(`not a build id: ${JSON.stringify(buildId)}`);
}
