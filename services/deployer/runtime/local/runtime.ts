import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { rm } from "node:fs/promises";
import { delimiter, dirname, isAbsolute, join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { createKeyedMutex } from "../../../kit/concurrency/keyed-mutex.ts";
import { type ControlGroups, noControlGroups } from "../../../kit/process/control-groups.ts";
import { noWalls, type Walls } from "../../../kit/process/walls.ts";
import { startAliveMark } from "../../shared/alive-mark.ts";
import type { Logger } from "../../shared/logger.ts";
import { endProcesses, endProcessesOutside } from "../../shared/process-tree.ts";
import { imageRef } from "../../terms/artifact.ts";
import { RuntimeRefusal } from "../../terms/runtime-refusal.ts";
import { chooseLabel } from "../host-label.ts";
import type { Release, Runtime, RuntimeStatus } from "../port.ts";
import { SLOW_START_MS } from "../status-messages.ts";
import { directoryBuildId, type PythonFolders, readManifest } from "./artifact.ts";
import { lockFolder, unlockFolder } from "./folder-lock.ts";
import { measureServices, unmeasuredHere } from "./measure.ts";
import type { Router } from "./routing/router.ts";
import { createLocalRuns } from "./runs/local-runs.ts";
import {
  listServiceFolders,
  readServiceRecord,
  type ServiceRecord,
} from "./service/record/service-record.ts";
import { createSealer } from "./service/record/state-seal.ts";
import { type LocalTimes, openService, type Service, type ServiceContext } from "./service/service-runner.ts";

export type LocalRuntimeOptions = {
  /** Holds all of its state. */
  folder: string;
  /** Where the local builder keeps its artifacts. */
  artifactsFolder: string;
  /** At least 16 characters; seals releases, variables included, on disk. */
  secret: string;
  router: Router;
  /** What apps and runs are started behind; nothing isolates them from each other without. */
  walls?: Walls;
  /** Holds apps and runs to their sizes; nothing does without. */
  groups?: ControlGroups;
  log: Logger;
  times?: Partial<LocalTimes>;
};

export type LocalRuntime = Runtime & {
  /**
   * Adopts what still runs after an earlier process was killed, ends processes that belong to no service, and starts what
   * is missing. To be awaited before anything else. Throws `runtime_in_use` while another process holds the folder.
   */
  start(): Promise<void>;
  /** Ends every app, within little more than `stopGraceMs`; the next `start` starts them again. */
  stopAll(): Promise<void>;
};

const DEFAULT_TIMES: LocalTimes = {
  firstPauseMs: 250,
  longestPauseMs: 60_000,
  stableMs: 30_000,
  graceMs: 10_000,
  slowMs: SLOW_START_MS,
  probeMs: 10_000,
  crashLoopAfter: 3,
  rolloutDeadlineMs: 300_000,
  drainMs: 30_000,
  stopGraceMs: 5_000,
};

/** Runs releases as process groups of this machine. */
export function createLocalRuntime(given: LocalRuntimeOptions): LocalRuntime {
  // Absolute: processes, which run in other folders, are identified by these paths.
  const options = {
    ...given,
    folder: resolve(given.folder),
    artifactsFolder: resolve(given.artifactsFolder),
  };
  const services = new Map<string, Service>();
  const listeners = new Set<(status: RuntimeStatus) => void>();
  const turns = createKeyedMutex();
  const root = join(options.folder, "services");
  let stopped = false;
  let alive: ReturnType<typeof startAliveMark> | undefined;
  const shared = {
    artifactsFolder: options.artifactsFolder,
    toolFolders: findToolFolders(),
    python: findPython(),
    walls: options.walls ?? noWalls,
    groups: options.groups ?? noControlGroups,
    router: options.router,
    sealer: createSealer(options.secret),
    log: options.log,
    times: { ...DEFAULT_TIMES, ...options.times },
    emit(status: RuntimeStatus) {
      for (const listener of listeners) listener(status);
    },
  };
  const runs = createLocalRuns({
    ...shared,
    folder: join(options.folder, "runs"),
    graceMs: shared.times.graceMs,
  });
  const contextOf = (serviceId: string): ServiceContext => ({
    ...shared,
    folder: join(root, folderName(serviceId)),
    watchedUntil: alive?.before,
  });

  /** Returns the host label of a service, which it keeps as long as its names stay; empty for a worker. */
  function labelFor({ names, serviceId, type }: Release): string {
    if (type !== "web") return "";
    const current = services.get(serviceId);
    if (current?.label() && isDeepStrictEqual(current.names(), names)) return current.label();
    return chooseLabel(names, serviceId, (label) =>
      [...services].some(([other, service]) => other !== serviceId && service.label() === label),
    );
  }

  async function apply(release: Release): Promise<void> {
    if (stopped) throw new Error("the runtime is stopping");
    refuseUnrunnable(release, options.artifactsFolder);
    const { serviceId } = release;
    const own = structuredClone(release);
    const service = services.get(serviceId);
    if (service) return service.apply(own, labelFor(own));
    const desired = { generation: 1, release: own, appliedAt: Date.now(), restarts: 0 };
    await openRecord({ serviceId, label: labelFor(own), desired, instances: [] });
  }

  async function openRecord(record: ServiceRecord): Promise<void> {
    services.set(record.serviceId, await openService(contextOf(record.serviceId), record));
  }

  async function restore(folder: string): Promise<void> {
    const record = readServiceRecord(folder, shared.sealer);
    if (record && !record.removed) return openRecord(record);
    if (!record)
      options.log.warn({ folder }, "could not read the state of a service; it runs again once it is applied");
    const deadline = Date.now() + shared.times.graceMs;
    const leaders = [undefined, ...(record?.instances ?? [])];
    await Promise.all(leaders.map((leader) => endProcesses(leader, folder, () => deadline)));
    await rm(folder, { recursive: true, force: true });
  }

  return {
    async start() {
      mkdirSync(options.folder, { recursive: true, mode: 0o700 });
      lockFolder(options.folder);
      alive = startAliveMark(options.folder);
      const failed = (folder: string) => (error: unknown) => {
        options.log.error(
          { err: error, folder },
          "could not restore a service; it runs again once it is applied",
        );
      };
      await Promise.all(listServiceFolders(root).map((folder) => restore(folder).catch(failed(folder))));
      await endProcessesOutside(root, new Set(services.keys()), shared.times.graceMs);
    },
    check: (release) => refuseUnrunnable(release, options.artifactsFolder),
    apply: (release) => turns.run(release.serviceId, () => apply(release)),
    remove: (serviceId) =>
      turns.run(serviceId, async () => {
        await services.get(serviceId)?.stop(true);
        services.delete(serviceId);
      }),
    scale: (serviceId, version, wanted) =>
      turns.run(serviceId, async () => services.get(serviceId)?.scale(version, wanted)),
    roll: (serviceId, version, rolls) =>
      turns.run(serviceId, async () => services.get(serviceId)?.roll(version, rolls)),
    setHosts: (serviceId, hosts) =>
      turns.run(serviceId, async () => {
        const service = services.get(serviceId);
        service?.setHosts(structuredClone(hosts));
        if (service?.isPrivate()) return [];
        return service && hosts.map((host) => ({ ...host, certificate: "none" as const }));
      }),
    status: async (serviceId) => services.get(serviceId)?.status(),
    list: async () => [...services.values()].map((service) => service.status()),
    watch(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async logs({ serviceId, environmentId: _, limit, cursor, ...filter }) {
      return (await services.get(serviceId)?.logs.page(filter, limit, cursor)) ?? { lines: [] };
    },
    async *followLogs({ serviceId, environmentId: _, ...filter }, signal) {
      const service = services.get(serviceId);
      if (service) yield* service.logs.follow(filter, signal);
    },
    measure: async () => measureServices([...services.values()], options.router),
    unmeasured: unmeasuredHere(),
    runs,
    async stopAll() {
      stopped = true;
      const runsEnded = runs.stopAll();
      const stopServices = () => Promise.all([...services.values()].map((service) => service.stop(false)));
      await stopServices();
      await turns.settled();
      await stopServices(); // one that was just being opened
      await runsEnded;
      alive?.stop();
      unlockFolder(options.folder);
    },
  };
}

function folderName(serviceId: string): string {
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(serviceId))
    throw new Error(`not a service id: ${JSON.stringify(serviceId)}`);
  return serviceId;
}

function refuseUnrunnable(release: Pick<Release, "artifact" | "command">, artifactsFolder: string): void {
  const image = imageRef(release.artifact);
  if (image !== undefined) {
    throw new RuntimeRefusal(
      "image_needs_cluster",
      `The image ${image} needs a cluster: this Berth runs services as processes on one machine. Deploy source from an archive, or install Berth on Kubernetes.`,
    );
  }
  const buildId = directoryBuildId(release.artifact);
  const manifest = buildId === undefined ? undefined : readManifest(artifactsFolder, buildId);
  if (!manifest) {
    throw new RuntimeRefusal(
      "artifact_missing",
      "The build output of this version no longer exists. Deploy it again.",
    );
  }
  if (release.command === undefined && manifest.command === undefined) {
    throw new RuntimeRefusal("command_missing", "The service has no start command; set config.command.");
  }
}

/** Returns the PATH of apps: the node that runs Berth, npm, then the system's folders. */
function findToolFolders(): string[] {
  const npm = (process.env.PATH ?? "").split(delimiter).find((folder) => existsSync(join(folder, "npm")));
  const folders = [dirname(process.execPath), npm, "/usr/local/bin", "/usr/bin", "/bin"];
  return [...new Set(folders.filter((folder) => folder !== undefined))];
}

/**
 * Returns where the Python is that builds find: the environment of a Python app is made of links to it, also where it is
 * in the home folder. Of a link's own folder only that is seen, because beside `~/.local/bin` is what is not a program.
 */
function findPython(): PythonFolders {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  const found = folders.find((folder) => existsSync(join(folder, "python3")));
  if (found === undefined) return { read: [], tools: [] };
  const real = dirname(realpathSync(join(found, "python3")));
  return real === found ? { read: [], tools: [real] } : { read: [found], tools: [real] };
}
