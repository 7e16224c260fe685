import { chmod, mkdir, readdir, readFile, realpath, rm } from "node:fs/promises";
import { join } from "node:path";
import { freePort, isFree } from "../../../services/kit/process/free-port.ts";
import { StartFailure } from "../failure.ts";
import { endOrphan, findProcesses } from "../processes/process-table.ts";
import { endAppsIn, removeApps } from "./apps-folder.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import { localInfoIn } from "./local-info.ts";
import { writeSafely } from "./secrets.ts";

/** Where everything listens, unless the operator names another address for the API and apps. */
export const LOOPBACK = "127.0.0.1";

/** The paths in a data folder. */
export type DataFolder = {
  dir: string;
  postgres: string;
  nats: string;
  deployer: string;
  /** Link to the folder of builds and running apps, where that is not in `deployer`. */
  apps: string;
  mail: string;
  stripe: string;
  logs: string;
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
    apps: join(dir, "apps"),
    mail: join(dir, "mail"),
    stripe: join(dir, "stripe"),
    logs,
    log: (name: string) => join(logs, `${name}.log`),
  };
  await localInfoIn(dir).remove();
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
  await endAppsIn(folder.deployer);
  await removeApps(folder);
  // The secrets go last: as long as any data is left, so is its key.
  const { postgres, nats, deployer, mail, stripe, logs } = folder;
  for (const path of [postgres, nats, deployer, mail, stripe, logs, ...addressFiles(folder)]) {
    await rm(path, { recursive: true, force: true });
  }
  await rm(join(folder.dir, "secrets.json"), { force: true });
}

const addressFiles = ({ dir }: DataFolder) => ["ports.json", "public.json"].map((name) => join(dir, name));

/** A port that was taken by another process, and the one that is used instead. */
export type MovedPort = { name: string; from: number; to: number };

/**
 * Returns a port for each name: the one of the last start, else its usual one, else any free one, and stores them in
 * `ports.json`. Addresses in variables of apps, in mails and in the tokens of OAuth applications thus survive restarts.
 * The API's is `requested` where that is given, and never moves by itself: applications know it by its address. Nor does
 * that of apps `behindProxy`, which sends requests there. Both are at the address `listen`.
 *
 * @throws StartFailure `portInUse` when the API's former port is taken, `folderDamaged` when `ports.json` cannot be read.
 */
export async function choosePorts(
  folder: DataFolder,
  names: string[],
  usual: Record<string, number>,
  how: { requested?: number; listen?: string; behindProxy?: boolean } = {},
): Promise<{ ports: Record<string, number>; moved: MovedPort[] }> {
  const { requested, listen = LOOPBACK, behindProxy = false } = how;
  const file = join(folder.dir, "ports.json");
  const former = await readPorts(file);
  if (requested === undefined && former.gateway !== undefined && !(await isFree(former.gateway, listen)))
    throw new StartFailure("portInUse", apiMoved(former.gateway, listen));
  if (requested === undefined && behindProxy && former.router && !(await isFree(former.router, listen)))
    throw new StartFailure("portInUse", appsMoved(former.router, listen));
  const asked = requested === former.gateway ? undefined : requested;
  const wanted: Record<string, number> = {
    ...usual,
    ...former,
    ...(asked !== undefined && { gateway: asked, router: asked + 1 }),
  };
  const ports: Record<string, number> = {};
  const moved: MovedPort[] = [];
  for (const name of names) {
    const candidates = [wanted[name], former[name]].filter((port) => port !== undefined);
    const host = name === "gateway" || name === "router" ? listen : LOOPBACK;
    const to = await firstFree(candidates, new Set(Object.values(ports)), host);
    ports[name] = to;
    const from = candidates[0];
    if (from !== undefined && from !== to) moved.push({ name, from, to });
  }
  await writeSafely(file, `${JSON.stringify(ports, null, 2)}\n`);
  return { ports, moved };
}

async function readPorts(file: string): Promise<Record<string, number>> {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw new StartFailure(
      "folderDamaged",
      `The file ${file} cannot be read. Restore it, or delete it to choose new ports.`,
      { cause },
    );
  }
}

const apiMoved = (port: number, listen: string) =>
  `Port ${port} on ${listen} is in use, and the API of this data folder has that address. Stop the process that listens ` +
  "there, or move the API with --port: OAuth applications then have to be connected again.";

const appsMoved = (port: number, listen: string) =>
  `Port ${port} on ${listen} is in use, and the proxy in front sends requests for apps there. Stop the process that ` +
  "listens there, or move both with --port, and change the proxy's configuration.";

async function firstFree(candidates: number[], taken: Set<number>, host: string): Promise<number> {
  for (const port of candidates) if (!taken.has(port) && (await isFree(port, host))) return port;
  const port = await freePort();
  return taken.has(port) || !(await isFree(port, host)) ? firstFree(candidates, taken, host) : port;
}

/** @throws StartFailure `portInUse` when a process listens on the port. */
export async function requirePort(port: number, listen = LOOPBACK): Promise<void> {
  if (await isFree(port, listen)) return;
  throw new StartFailure(
    "portInUse",
    `Port ${port} on ${listen} is in use. Stop the process that listens there, or choose another port with --port.`,
  );
}

/** Makes a folder of mode 0700. */
export async function makeFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
}
