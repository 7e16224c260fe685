import { chmod, mkdir, readdir, readFile, realpath, rm } from "node:fs/promises";
import { join } from "node:path";
import { freePort, isFree } from "../../../services/kit/process/free-port.ts";
import { endOrphan, findByWorkingDirectory, findProcesses } from "../processes/process-table.ts";
import { StartFailure } from "../terminal/failure.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import { writeSafely } from "./secrets.ts";

/** The paths in a data folder. */
export type DataFolder = {
  dir: string;
  postgres: string;
  nats: string;
  deployer: string;
  mail: string;
  stripe: string;
  logs: string;
  localInfo: string;
  log(name: string): string;
};

/**
 * Locks a data folder for this process, making it where it is missing.
 *
 * @throws StartFailure `folderTaken` with the URL of the instance that uses it.
 */
export async function takeDataFolder(data: string): Promise<{ folder: DataFolder; lock: FolderLock }> {
  const lock = await lockFolder(data);
  const dir = await realpath(data);
  // As root, PostgreSQL runs as another user, who has to traverse the folder but need not list it.
  await chmod(dir, process.getuid?.() === 0 ? 0o711 : 0o700);
  const logs = join(dir, "logs");
  const folder = {
    dir,
    postgres: join(dir, "postgres"),
    nats: join(dir, "nats"),
    deployer: join(dir, "deployer"),
    mail: join(dir, "mail"),
    stripe: join(dir, "stripe"),
    logs,
    localInfo: join(dir, "local.json"),
    log: (name: string) => join(logs, `${name}.log`),
  };
  await rm(folder.localInfo, { force: true }); // Left by a killed run: nothing answers there now.
  return { folder, lock };
}

/** Returns whether nothing has been stored in the folder yet. */
export async function isFresh(folder: DataFolder): Promise<boolean> {
  const names: string[] = await readdir(folder.postgres).catch(() => []);
  return !names.includes("data");
}

/**
 * Deletes everything that the platform keeps in the folder, and nothing else. Processes of a killed run that still
 * use these files are ended first.
 */
export async function resetDataFolder(folder: DataFolder): Promise<void> {
  const isOurs = (line: string) =>
    line.includes(`-D ${folder.postgres}/`) || line.includes(`-c ${folder.nats}/`);
  for (const pid of await findProcesses(isOurs)) await endOrphan(pid, isOurs, "SIGINT", 4_000);
  for (const pid of await findByWorkingDirectory(folder.deployer))
    await endOrphan(pid, () => true, "SIGTERM", 2_000);
  // The secrets go last: as long as any data is left, so is its key.
  const { postgres, nats, deployer, mail, stripe, logs } = folder;
  for (const path of [postgres, nats, deployer, mail, stripe, logs, join(folder.dir, "ports.json")]) {
    await rm(path, { recursive: true, force: true });
  }
  await rm(join(folder.dir, "secrets.json"), { force: true });
}

/**
 * Returns a port for each name: its preferred one if that is free, else the one of the last start, else any free
 * one, and stores them in `ports.json`. Addresses in the variables of apps thus survive restarts.
 */
export async function choosePorts(
  folder: DataFolder,
  names: string[],
  preferred: Record<string, number>,
): Promise<Record<string, number>> {
  const file = join(folder.dir, "ports.json");
  const former: Record<string, number> = JSON.parse(await readFile(file, "utf8").catch(() => "{}"));
  const chosen: Record<string, number> = {};
  for (const name of names) {
    const candidates = [preferred[name], former[name]].filter((port) => port !== undefined);
    chosen[name] = await firstFree(candidates, new Set(Object.values(chosen)));
  }
  await writeSafely(file, `${JSON.stringify(chosen, null, 2)}\n`);
  return chosen;
}

async function firstFree(candidates: number[], taken: Set<number>): Promise<number> {
  for (const port of candidates) if (!taken.has(port) && (await isFree(port))) return port;
  const port = await freePort();
  return taken.has(port) ? firstFree(candidates, taken) : port;
}

/** @throws StartFailure `portInUse` when a process listens on the port. */
export async function requirePort(port: number): Promise<void> {
  if (await isFree(port)) return;
  throw new StartFailure(
    "portInUse",
    `Port ${port} on 127.0.0.1 is in use. Stop the process that listens there, or choose another port with --port.`,
  );
}

/** Makes a folder of mode 0700. */
export async function makeFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
}
