import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, mkdirSync, openSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ControlGroups } from "../../../../../kit/process/control-groups.ts";
import type { Walls } from "../../../../../kit/process/walls.ts";
import { sizes } from "../../../../../kit/sizes.ts";
import { withExec } from "../../../../shared/exec-command.ts";
import { endProcesses, isAlive, type ProcessRef, startedOf } from "../../../../shared/process-tree.ts";
import type { Release } from "../../../port.ts";
import { describeExit } from "../../../status-messages.ts";
import { chooseAppPort } from "../../app-port.ts";
import {
  artifactFolders,
  directoryBuildId,
  type PythonFolders,
  pythonOf,
  readManifest,
} from "../../artifact.ts";
import { type Collector, collectOutput, outputPath } from "../../logs/log-collector.ts";
import { instanceName, type LogStore } from "../../logs/log-store.ts";
import type { GenerationRecord, InstanceRecord } from "../record/service-record.ts";

/** What all instances of one service share. */
export type InstanceContext = {
  /** Holds one folder for each instance: its output files and its HOME. */
  folder: string;
  artifactsFolder: string;
  /** Folders for PATH, nearest first. */
  toolFolders: string[];
  python: PythonFolders;
  walls: Walls;
  /** One for each instance, by its name. */
  groups: ControlGroups;
  logs: LogStore;
};

export type Instance = {
  readonly record: InstanceRecord;
  /** By which its processes are found. */
  readonly folder: string;
  /** Resolves when its first process has ended, with a sentence that says how. */
  readonly ended: Promise<string>;
  /** Whether it ended because of its memory. */
  ranOutOfMemory(): boolean;
  /** Ends all its processes, collects its last output, removes its folder. Another call can only shorten the grace. */
  end(graceMs: number): Promise<void>;
};

/** Starts one replica as a session of its own, which survives a kill of this process. */
export async function startInstance(
  home: InstanceContext,
  { generation, release }: GenerationRecord,
  replica: number,
): Promise<Instance> {
  const port = await chooseAppPort();
  const name = instanceName(release.version, replica, randomBytes(5).toString("hex"));
  const folder = join(home.folder, name);
  for (const own of ["home", "tmp"]) mkdirSync(join(folder, own), { recursive: true, mode: 0o700 });
  const output = openSync(outputPath(folder, "stdout"), "a");
  const errors = openSync(outputPath(folder, "stderr"), "a");
  const record: InstanceRecord = { name, generation, replica, port, pid: 0, started: "" };
  let ended: Promise<string>;
  try {
    const { argv, cwd, env } = describeProcess(home, release, port, folder);
    const [file, ...args] = home.groups.enter(name, sizes[release.size], argv);
    const child = spawn(file!, args, {
      cwd,
      env,
      detached: true,
      stdio: ["ignore", output, errors],
    });
    ended = waitForExit(child);
    child.unref();
    record.pid = child.pid ?? 0;
    record.started = startedOf(record.pid) ?? "";
  } catch (error) {
    ended = Promise.resolve(`The app could not be started: ${(error as Error).message}`);
  } finally {
    closeSync(output);
    closeSync(errors);
  }
  const collector = collectOutput(folder, name, home.logs, { stdout: 0, stderr: 0 });
  return wrap(home, record, folder, collector, ended);
}

/** Adopts an instance that an earlier process started; undefined when it has ended meanwhile. */
export async function adoptInstance(
  home: InstanceContext,
  record: InstanceRecord,
): Promise<Instance | undefined> {
  if (!isAlive(record)) return undefined;
  const folder = join(home.folder, record.name);
  const collector = collectOutput(
    folder,
    record.name,
    home.logs,
    await home.logs.collectedOffsets(record.name),
  );
  return wrap(home, record, folder, collector, waitForEnd(record));
}

/** Ends the instances that exist now and are not among `kept`, and collects their last output. */
export async function sweepInstances(
  home: InstanceContext,
  known: InstanceRecord[],
  kept: ReadonlySet<string>,
  graceMs: number,
): Promise<void> {
  mkdirSync(home.folder, { recursive: true, mode: 0o700 });
  const deadline = Date.now() + graceMs;
  const names = readdirSync(home.folder).filter((name) => !kept.has(name));
  await Promise.all(
    names.map(async (name) => {
      const folder = join(home.folder, name);
      const record = known.find((one) => one.name === name);
      await endProcesses(record?.started ? record : undefined, folder, () => deadline);
      const collector = collectOutput(folder, name, home.logs, await home.logs.collectedOffsets(name));
      collector.collect(true);
      collector.close();
      home.groups.remove(name);
      await rm(folder, { recursive: true, force: true });
    }),
  );
}

function wrap(
  { groups }: InstanceContext,
  record: InstanceRecord,
  folder: string,
  collector: Collector,
  ended: Promise<string>,
): Instance {
  let ending: Promise<void> | undefined;
  let deadline = Number.POSITIVE_INFINITY;
  const finish = async () => {
    await endProcesses(record.started ? record : undefined, folder, () => deadline);
    collector.collect(true);
    collector.close();
    groups.remove(record.name);
    await rm(folder, { recursive: true, force: true });
  };
  const end = (graceMs: number) => {
    deadline = Math.min(deadline, Date.now() + graceMs);
    ending ??= finish();
    return ending;
  };
  return { record, folder, ended, ranOutOfMemory: () => groups.ranOutOfMemory(record.name), end };
}

/** Returns command and environment: the app's variables, PORT and a minimum, nothing of this process's environment. */
function describeProcess(home: InstanceContext, release: Release, port: number, own: string) {
  const buildId = directoryBuildId(release.artifact) ?? "";
  const manifest = readManifest(home.artifactsFolder, buildId);
  const command = release.command ?? manifest?.command;
  if (!manifest || command === undefined)
    throw new Error("its build output no longer exists. Deploy it again.");
  const { folder, app: cwd } = artifactFolders(home.artifactsFolder, buildId);
  const python = pythonOf(manifest, home.python);
  const homeFolder = join(own, "home");
  const folders = [...manifest.path.map((one) => join(cwd, one)), ...home.toolFolders];
  const env = {
    PATH: folders.join(":"),
    HOME: homeFolder,
    LANG: "C.UTF-8",
    ...release.env,
    PORT: String(port),
  };
  const sight = {
    cwd,
    read: [folder, ...python.read],
    write: [cwd, homeFolder],
    tmp: join(own, "tmp"),
    tools: [...home.toolFolders, ...python.tools],
  };
  return { argv: home.walls(["/bin/sh", "-c", withExec(command)], sight), cwd, env };
}

function waitForExit(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) =>
      resolve(signal ? `The app was terminated by ${signal}.` : describeExit(code ?? undefined)),
    );
    child.once("error", (error) => resolve(`The app could not be started: ${error.message}.`));
  });
}

/** Polls, because the system does not report the end of an adopted process, which is no child of ours. */
async function waitForEnd(ref: ProcessRef): Promise<string> {
  while (isAlive(ref)) await delay(250, undefined, { ref: false });
  return "The app ended.";
}
