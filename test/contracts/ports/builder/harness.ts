import {
  type Builder,
  type BuildRequest,
  type BuildResult,
  defaultBuildLimits,
} from "../../../../services/deployer/builder/port.ts";
import type { ObjectStore } from "../../../../services/deployer/store/port.ts";
import { type ArchiveEntry, archiveOf } from "../../../support/archives.ts";
import type { GitServer } from "../../../support/servers/git-server.ts";

export type BuilderHarness = {
  builder: Builder;
  store: ObjectStore;
  /** A git server that builds can reach. */
  git: GitServer;
  /** Returns the names of all processes, files and objects that a build of this id has left. */
  remains(buildId: string): Promise<string[]>;
  /** Starts what was built, requests `path` and stops it. */
  ask(
    result: BuildResult,
    path: string,
    env: Record<string, string>,
  ): Promise<{ status: number; body: string }>;
  close(): Promise<void>;
};

let builds = 0;

/** Stores an archive and returns the request to build it; `stages` and `lines` collect what the build reports. */
export async function requestOf(
  store: ObjectStore,
  archive: Buffer | ArchiveEntry[],
  changes: Partial<BuildRequest> = {},
): Promise<BuildRequest & { stages: string[]; lines: string[] }> {
  const build = ++builds;
  const key = `uploads/svc_1/${build}.tgz`;
  await store.put(key, Array.isArray(archive) ? await archiveOf(archive) : archive, "application/gzip");
  const stages: string[] = [];
  const lines: string[] = [];
  return {
    buildId: `dep_${process.pid}x${build}`,
    accountId: "acc_1",
    serviceId: "svc_1",
    type: "web",
    source: { kind: "archive", key },
    limits: defaultBuildLimits,
    port: 8080,
    timeoutMs: 120_000,
    onStage: (stage) => stages.push(stage),
    log: (line) => lines.push(line),
    ...changes,
    stages,
    lines,
  };
}

export const never = new AbortController().signal;
