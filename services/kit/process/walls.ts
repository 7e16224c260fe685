import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { findProgram, type WantedProgram } from "./program.ts";

/** What a program sees besides the files of the system, which it can read. */
export type Sight = {
  /** Where it starts. */
  cwd: string;
  /** Folders that it can read although they are hidden. */
  read?: string[];
  /** Folders that it can write. */
  write: string[];
  /** Its /tmp. */
  tmp: string;
  /** Folders with programs: it can read them also where they are below the home folder or /tmp. */
  tools?: string[];
  /** Whether it can write the home folder of this process's user: tools of builds have their caches there. */
  home?: boolean;
};

/** Which each program has of its own. */
const TMP = ["/tmp", "/var/tmp"];

/** Returns the command that runs another one behind walls. */
export type Walls = (argv: string[], sight: Sight) => string[];

export const noWalls: Walls = (argv) => argv;

const BUBBLEWRAP: WantedProgram = {
  names: ["bwrap"],
  fits: (version) => version.startsWith("bubblewrap "),
  sources: {},
};
const TRIAL_MS = 10_000;

/** Berth itself: a build that may write the home folder around it must not change it. */
const PROJECT = join(import.meta.dirname, "../../..");

/** Where the answers to names come from, on machines where /etc/resolv.conf leads there. */
const RESOLVERS = ["/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"];

/**
 * Returns walls made of user, process and mount namespaces by bubblewrap, after a trial. A program behind them sees no
 * other processes, writes only where it may, and finds these folders, the home folder and /run empty. It has the same
 * network and the same user. Throws with why there can be none. The last folder must be writable.
 */
export async function raiseWalls(folders: string[], path: string | undefined): Promise<Walls> {
  if (process.platform !== "linux") throw new Error("only Linux has what they are made of");
  const program = await findProgram(BUBBLEWRAP, { path });
  if (!program) throw new Error("bubblewrap (bwrap) is not on the PATH");
  // What a link leads to would stay where it is.
  const hidden = await Promise.all(folders.map((folder) => realpath(folder).catch(() => folder)));
  // Some service users have none, or the root of all folders.
  const home = await realpath(homedir()).catch(() => "/");
  const walls: Walls = (argv, sight) => [program, ...optionsOf(hidden, home, sight), "--", ...argv];
  const make = () => mkdtemp(join(folders.at(-1)!, "walls-"));
  const [own, other] = [await make(), await make()];
  try {
    const look = ["/bin/sh", "-c", 'touch it && ! test -e "$1"', "sh", other];
    const [file, ...args] = walls(look, { cwd: own, write: [own], tmp: own });
    await promisify(execFile)(file!, args, { timeout: TRIAL_MS });
  } catch (error) {
    const [said = ""] = String((error as { stderr?: string }).stderr ?? "").split("\n");
    throw new Error(`bubblewrap cannot make them here${said && ` (${said})`}`);
  } finally {
    await Promise.all([own, other].map((folder) => rm(folder, { recursive: true })));
  }
  return walls;
}

/** The order matters: what comes later lies above what comes earlier. */
function optionsOf(hidden: string[], home: string, sight: Sight): string[] {
  const { cwd, read = [], write, tmp, tools = [], home: writesHome = false } = sight;
  const bind = (kind: "bind" | "ro-bind", ...folders: string[]) =>
    folders.filter((folder) => existsSync(folder)).flatMap((folder) => [`--${kind}`, folder, folder]);
  const homes = home === "/" ? [] : writesHome ? bind("bind", home) : ["--tmpfs", home];
  // Also the Node.js that runs Berth, wherever it is.
  const programs = [dirname(process.execPath), ...tools].filter((folder) =>
    [home, ...TMP].some((hides) => folder.startsWith(`${hides}/`)),
  );
  return [
    ...["--unshare-user", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"],
    ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"],
    ...bind("ro-bind", ...RESOLVERS),
    ...TMP.flatMap((folder) => ["--bind", tmp, folder]),
    ...homes,
    ...bind("ro-bind", ...(writesHome ? [PROJECT] : [])),
    ...bind("ro-bind", ...programs.map((folder) => prefixOf(folder, home))),
    ...hidden.filter((folder) => existsSync(folder)).flatMap((folder) => ["--tmpfs", folder]),
    ...bind("ro-bind", ...read),
    ...bind("bind", ...write),
    ...["--chdir", cwd],
  ];
}

/** The folder of a program's installation, which has its libraries beside `bin`. */
function prefixOf(tools: string, home: string): string {
  const inIt = ["bin", "shims"].includes(basename(tools)) && dirname(tools) !== home;
  return inIt ? dirname(tools) : tools;
}
