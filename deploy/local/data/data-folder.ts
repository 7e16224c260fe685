import { chmod, mkdir, readdir, readFile, realpath, rm } from "node:fs/promises";
import { join } from "node:path";
import { freePort, isFree } from "../../../services/kit/process/free-port.ts";
import { endOrphan, findProcesses, workingUnder } from "../processes/process-table.ts";
import { StartFailure } from "../terminal/failure.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import { writeSafely } from "./secrets.ts";

/** Where things are in the data folder. */
export type DataFolder = {
  dir: string;
  postgres: string;
  nats: string;
  deployer: string;
  logs: string;
  localInfo: string;
  log(name: string): string;
};

/**
 * Take a data folder for this process; it is made where it is missing.
 *
 * @throws StartFailure `folderTaken` with the URL of the instance that has it.
 */
export async function takeDataFolder(data: string): Promise<{ folder: DataFolder; lock: FolderLock }> {
  const lock = await lockFolder(data);
  const dir = await realpath(data);
  // As root, PostgreSQL runs as another user, who has to pass but need not look around.
  await chmod(dir, process.getuid?.() === 0 ? 0o711 : 0o700);
  const logs = join(dir, "logs");
  const folder = {
    dir,
    postgres: join(dir, "postgres"),
    nats: join(dir, "nats"),
    deployer: join(dir, "deployer"),
    logs,
    localInfo: join(dir, "local.json"),
    log: (name: string) => join(logs, `${name}.log`),
  };
  await rm(folder.localInfo, { force: true }); // Of a run that was killed: nothing answers there now.
  return { folder, lock };
}

/** Whether nothing was ever stored in the folder. */
export async function isFresh(folder: DataFolder): Promise<boolean> {
  const names: string[] = await readdir(folder.postgres).catch(() => []);
  return !names.includes("data");
}

/**
 * Delete everything that this platform keeps in the folder, and nothing else that may be in it. Processes of a
 * killed run that still work on these files are ended first.
 */
export async function resetDataFolder(folder: DataFolder): Promise<void> {
  const works = (line: string) =>
    line.includes(`-D ${folder.postgres}/`) || line.includes(`-c ${folder.nats}/`);
  for (const pid of await findProcesses(works)) await endOrphan(pid, works, "SIGINT", 4_000);
  for (const pid of await workingUnder(folder.deployer)) await endOrphan(pid, () => true, "SIGTERM", 2_000);
  // The secrets go last: while any data is left, so is the key to it.
  const { postgres, nats, deployer, logs } = folder;
  for (const path of [postgres, nats, deployer, logs, join(folder.dir, "ports.json")]) {
    await rm(path, { recursive: true, force: true });
  }
  await rm(join(folder.dir, "secrets.json"), { force: true });
}

/**
 * Ports for these names: the usual one where it has one and it is free, else the one of the last start, else any
 * free one. Addresses that reached an app's variables thus stay true over restarts. Kept in `ports.json`.
 */
export async function choosePorts(
  folder: DataFolder,
  names: string[],
  usual: Record<string, number>,
): Promise<Record<string, number>> {
  const file = join(folder.dir, "ports.json");
  const former: Record<string, number> = JSON.parse(await readFile(file, "utf8").catch(() => "{}"));
  const chosen: Record<string, number> = {};
  for (const name of names) {
    const wanted = [usual[name], former[name]].filter((port) => port !== undefined);
    chosen[name] = await firstFree(wanted, new Set(Object.values(chosen)));
  }
  await writeSafely(file, `${JSON.stringify(chosen, null, 2)}\n`);
  return chosen;
}

async function firstFree(wanted: number[], taken: Set<number>): Promise<number> {
  for (const port of wanted) if (!taken.has(port) && (await isFree(port))) return port;
  const port = await freePort();
  return taken.has(port) ? firstFree(wanted, taken) : port;
}

/** @throws StartFailure `portInUse` when something listens on the port that was asked for. */
export async function requirePort(port: number): Promise<void> {
  if (await isFree(port)) return;
  throw new StartFailure(
    "portInUse",
    `The port ${port} on 127.0.0.1 is in use. Stop what listens there, or ask for another with --port.`,
  );
}

/** Make the folder that a part keeps its files in. */
export async function makeFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
}
