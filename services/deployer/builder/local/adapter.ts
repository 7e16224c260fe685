import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { artifactFolders, directoryArtifact, directoryBuildId } from "../../runtime/local/artifact.ts";
import { endProcesses } from "../../shared/process-tree.ts";
import type { Builder } from "../port.ts";
import { withTimeLimit } from "../time-limit.ts";
import { buildFolder, type LocalBuilderOptions, readResult } from "./build-folder.ts";
import { createDependencyCache } from "./dependency-cache.ts";

type RunningBuild = {
  stop: AbortController;
  done: Promise<unknown>;
};

/** Builds on this machine, as the user of this process. */
export function createLocalBuilder(given: LocalBuilderOptions): Builder {
  const options = { ...given, folder: resolve(given.folder) };
  const running = new Map<string, RunningBuild>();
  const cache = createDependencyCache(`${options.folder}-cache`);

  /** Kills what a build of this id left running, in whichever process it began, and removes its folder. */
  async function removeBuild(buildId: string): Promise<void> {
    const { folder } = artifactFolders(options.folder, buildId);
    if (!existsSync(folder)) return; // it is removed last, after the processes
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
      const finished = readResult(options.folder, request.buildId);
      if (finished) return finished;
      const own = new AbortController();
      const done = withTimeLimit(request, AbortSignal.any([signal, own.signal]), (limited, log) =>
        buildFolder(options, cache, { ...request, log }, limited, () => removeBuild(request.buildId)),
      );
      running.set(request.buildId, { stop: own, done });
      return done.finally(() => running.delete(request.buildId));
    },
    async discard({ buildId }) {
      checkId(buildId);
      await stop(buildId);
      await removeBuild(buildId);
    },
    async removeArtifact(artifact) {
      const buildId = directoryBuildId(artifact);
      if (buildId !== undefined)
        await rm(artifactFolders(options.folder, buildId).folder, { recursive: true, force: true });
    },
    removeCaches: cache.remove,
  };
}

function checkId(buildId: string): void {
  if (directoryBuildId(directoryArtifact(buildId)) === undefined)
    throw new Error(`not a build id: ${JSON.stringify(buildId)}`);
}
