import { execFile } from "node:child_process";
import { chmod, lchown, lstat, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { StartFailure } from "../failure.ts";

/** The OS user that PostgreSQL runs as, how a program becomes that user, and who has to own its files. */
export type OsUser = {
  prefix: string[];
  uid?: number;
  gid?: number;
  owner: { uid: number; gid: number };
};

/**
 * Returns the user that PostgreSQL runs as. It refuses root: an ordinary user runs it as itself; root runs it, in
 * this order, as another user, in a user namespace where root's files belong to an ordinary user, or as another
 * user with the capability to enter closed folders (a clone under /root needs one of the last two).
 * Each is tried: it must enter a folder in `dir` and start `binary`.
 *
 * @throws StartFailure `cannotRun` when none of them works here.
 */
export async function findOsUser(dir: string, binary: string): Promise<OsUser> {
  const uid = process.getuid?.() ?? -1;
  if (uid !== 0) return { prefix: [], owner: { uid, gid: process.getgid?.() ?? -1 } };
  const refusals: string[] = [];
  for (const osUser of osUsersForRoot(await unprivilegedUser())) {
    const refusal = await tryOsUser(osUser, dir, binary);
    if (refusal === undefined) return osUser;
    refusals.push(refusal);
  }
  throw new StartFailure(
    "cannotRun",
    `PostgreSQL refuses to run as root, and no other user can access ${dir} (${refusals.join("; ")}). ` +
      "Start as an ordinary user, or clone to a folder that other users can access.",
  );
}

function osUsersForRoot({ uid, gid }: { uid: number; gid: number }): OsUser[] {
  const unshare = ["unshare", "--user", `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, "--"];
  const passThrough = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"];
  // Without this bit access(2), by which PostgreSQL checks its files, ignores the capability.
  const knownToAccess = "--securebits=+no_setuid_fixup";
  const become = [`--reuid=${uid}`, `--regid=${gid}`, "--clear-groups"];
  const setpriv = ["setpriv", ...become, knownToAccess, ...passThrough, "--"];
  return [
    { prefix: [], uid, gid, owner: { uid, gid } },
    { prefix: unshare, owner: { uid: 0, gid: 0 } },
    { prefix: setpriv, owner: { uid, gid } },
  ];
}

const NOBODY = 65_534;

/** Returns the system's `postgres` user, else `nobody`. */
async function unprivilegedUser(): Promise<{ uid: number; gid: number }> {
  const users = await readFile("/etc/passwd", "utf8").catch(() => "");
  const [, uid, gid] = users.match(/^postgres:[^:]*:(\d+):(\d+):/m) ?? [];
  return uid ? { uid: Number(uid), gid: Number(gid) } : { uid: NOBODY, gid: NOBODY };
}

/** Returns undefined when it works, else why not. */
async function tryOsUser(osUser: OsUser, dir: string, binary: string): Promise<string | undefined> {
  const probe = await mkdtemp(join(dir, "probe-"));
  try {
    await changeOwner(osUser.owner, probe);
    const script = 'cd "$1" && : > file && exec "$2" --version';
    const [file, ...args] = [...osUser.prefix, "/bin/sh", "-c", script, "sh", probe, binary];
    return await new Promise((resolve) => {
      const { uid, gid } = osUser;
      execFile(file as string, args, { uid, gid, cwd: "/" }, (error, _out, stderr) =>
        resolve(error ? (stderr.trim() || error.message).split("\n").at(-1) : undefined),
      );
    });
  } finally {
    await rm(probe, { recursive: true, force: true });
  }
}

/**
 * Changes the owner of a folder and everything in it, the folder itself last, so that the next start repeats an
 * interrupted run. Does nothing when the folder already belongs to `owner`.
 */
export async function changeOwner(owner: { uid: number; gid: number }, dir: string): Promise<void> {
  const { uid } = await lstat(dir);
  if (uid === owner.uid) return;
  for (const entry of await readdir(dir, { recursive: true })) {
    await lchown(join(dir, entry), owner.uid, owner.gid);
  }
  await lchown(dir, owner.uid, owner.gid);
}

/** Lets other users traverse a folder of root's, but not list it. */
export async function allowTraversal(dir: string): Promise<void> {
  if (process.getuid?.() === 0) await chmod(dir, 0o711);
}
