import { spawn } from "node:child_process";
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import type { ControlGroups } from "../../../../kit/process/control-groups.ts";
import type { Walls } from "../../../../kit/process/walls.ts";
import { sizes } from "../../../../kit/sizes.ts";
import {
  endProcesses,
  findProcessesOf,
  isAlive,
  type ProcessRef,
  startedOf,
} from "../../../shared/process-tree.ts";
import { RUN_OUTPUT_LINES, type Run, type RunPlace, type RunStatus, type Runs } from "../../port.ts";
import { RUN_OUT_OF_MEMORY } from "../../status-messages.ts";
import { chooseAppPort } from "../app-port.ts";
import {
  artifactFolders,
  directoryBuildId,
  type PythonFolders,
  pythonOf,
  readManifest,
} from "../artifact.ts";
import { splitOutput } from "../logs/log-collector.ts";

export type LocalRunsOptions = {
  /** Holds one folder for each run. */
  folder: string;
  artifactsFolder: string;
  /** Folders for PATH, nearest first. */
  toolFolders: string[];
  python: PythonFolders;
  walls: Walls;
  groups: ControlGroups;
  graceMs: number;
};

/** Writes the exit code where a later process finds it, of the command that follows it. */
const WRAPPER = `code="$1"; shift; "$@"; echo $? > "$code.new"; mv "$code.new" "$code"`;
const OUTPUT_BYTES = 1024 ** 2;

/**
 * Runs commands as sessions of this machine, which survive a kill of this process as apps do: all that is known of one
 * is in its folder. The variables are not: a command is never started twice.
 */
export function createLocalRuns(options: LocalRunsOptions): Runs & { stopAll: () => Promise<void> } {
  const { artifactsFolder, groups } = options;
  const folderOf = ({ name }: Pick<RunPlace, "name">) => {
    if (!/^[a-z0-9-]{1,60}$/.test(name)) throw new Error(`not the name of a run: ${JSON.stringify(name)}`);
    return join(options.folder, name);
  };

  async function end(folder: string): Promise<void> {
    const deadline = Date.now() + options.graceMs;
    await endProcesses(readLeader(folder), folder, () => deadline);
  }

  function status(folder: string): RunStatus | undefined {
    if (!existsSync(folder)) return undefined;
    const exitCode = readExitCode(folder);
    if (exitCode === 0) return { state: "succeeded", exitCode };
    const memory = groups.ranOutOfMemory(basename(folder));
    if (exitCode !== undefined)
      return { state: "failed", exitCode, ...(memory && { message: RUN_OUT_OF_MEMORY }) };
    const leader = readLeader(folder);
    if (leader ? isAlive(leader) : findProcessesOf(folder).length > 0) return { state: "running" };
    // It may have ended since the first look.
    return readExitCode(folder) === undefined ? { state: "lost" } : status(folder);
  }

  return {
    async start(run) {
      const folder = folderOf(run);
      const port = await chooseAppPort();
      mkdirSync(options.folder, { recursive: true, mode: 0o700 });
      try {
        // Who makes the folder starts the command; nothing else ever does.
        mkdirSync(folder, { mode: 0o700 });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
        throw error;
      }
      for (const own of ["home", "tmp"]) mkdirSync(join(folder, own));
      const output = openSync(join(folder, "output"), "a");
      try {
        const { cwd, env, argv } = describeProcess(options, run, port, folder);
        const child = spawn("/bin/sh", ["-c", WRAPPER, "sh", join(folder, "exit-code"), ...argv], {
          cwd,
          env,
          detached: true,
          stdio: ["ignore", output, output],
        });
        child.on("error", () => {}); // it is `lost`
        child.unref();
        const leader: ProcessRef = { pid: child.pid ?? 0, started: startedOf(child.pid ?? 0) ?? "" };
        writeFileSync(join(folder, "leader.new"), JSON.stringify(leader));
        renameSync(join(folder, "leader.new"), join(folder, "leader.json"));
      } finally {
        closeSync(output);
      }
    },
    status: async (place) => status(folderOf(place)),
    async output(place, last) {
      const folder = folderOf(place);
      const final = status(folder)?.state !== "running";
      return readOutput(join(folder, "output"), final, last);
    },
    async remove(place) {
      const folder = folderOf(place);
      await end(folder);
      groups.remove(place.name);
      await rm(folder, { recursive: true, force: true });
    },
    async stopAll() {
      const names = existsSync(options.folder) ? readdirSync(options.folder) : [];
      await Promise.all(names.map((name) => end(join(options.folder, name))));
    },
  };

  function describeProcess(
    { toolFolders, python: all, walls, groups }: LocalRunsOptions,
    run: Run,
    port: number,
    own: string,
  ) {
    const { release } = run;
    const buildId = directoryBuildId(release.artifact) ?? "";
    const { folder, app: cwd } = artifactFolders(artifactsFolder, buildId);
    const home = join(own, "home");
    const manifest = readManifest(artifactsFolder, buildId);
    const path = manifest?.path ?? [];
    const python = pythonOf(manifest, all);
    const command = run.command ?? release.command ?? manifest?.command ?? "false";
    const PATH = [...path.map((one) => join(cwd, one)), ...toolFolders].join(":");
    const sight = {
      cwd,
      read: [folder, ...python.read],
      write: [cwd, home],
      tmp: join(own, "tmp"),
      tools: [...toolFolders, ...python.tools],
    };
    // Without the shell around it, which writes down how it ended.
    const argv = groups.enter(run.name, sizes[release.size], walls(["/bin/sh", "-c", command], sight));
    return { cwd, argv, env: { PATH, HOME: home, LANG: "C.UTF-8", ...release.env, PORT: String(port) } };
  }
}

function readLeader(folder: string): ProcessRef | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "leader.json"), "utf8"));
  } catch {
    return undefined; // this process was killed as it started the command
  }
}

function readExitCode(folder: string): number | undefined {
  try {
    return Number(readFileSync(join(folder, "exit-code"), "utf8"));
  } catch {
    return undefined;
  }
}

function readOutput(path: string, final: boolean, last?: number): string[] {
  if (!existsSync(path)) return [];
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    const bytes = Buffer.alloc(Math.min(OUTPUT_BYTES, size));
    readSync(file, bytes, 0, bytes.length, last === undefined ? 0 : size - bytes.length);
    // Where only the beginning is read, its last line may be cut.
    const lines = splitOutput(bytes, final && (last !== undefined || bytes.length === size)).map(
      ({ message }) => message,
    );
    return last === undefined ? lines.slice(0, RUN_OUTPUT_LINES) : lines.slice(-last);
  } finally {
    closeSync(file);
  }
}
