import { execFile } from "node:child_process";
import { chmod, lchown, lstat, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { StartFailure } from "../terminal/failure.ts";

/** Under which identity PostgreSQL runs, and who has to own its files for that. */
export type Identity = {
  prefix: string[];
  uid?: number;
  gid?: number;
  owner: { uid: number; gid: number };
};

/**
 * PostgreSQL refuses to run as root. An ordinary user runs it as itself; root runs it, in this order, as
 * another user, or in a user namespace where root's files belong to an ordinary user, or as another user who
 * keeps the right to pass through folders closed to it (a clone under /root needs one of the last two).
 * Each way is tried for real: enter a folder in `dir` and start `binary`.
 *
 * @throws StartFailure `cannotRun` when no way works here.
 */
export async function findIdentity(dir: string, binary: string): Promise<Identity> {
  const uid = process.getuid?.() ?? -1;
  if (uid !== 0) return { prefix: [], owner: { uid, gid: process.getgid?.() ?? -1 } };
  const refusals: string[] = [];
  for (const identity of identitiesForRoot(await unprivilegedUser())) {
    const refusal = await tryIdentity(identity, dir, binary);
    if (refusal === undefined) return identity;
    refusals.push(refusal);
  }
  throw new StartFailure(
    "cannotRun",
    `PostgreSQL refuses to run as root, and no other identity can reach ${dir} (${refusals.join("; ")}). ` +
      "Start as an ordinary user, or clone to a folder that others may enter.",
  );
}

function identitiesForRoot({ uid, gid }: { uid: number; gid: number }): Identity[] {
  const unshare = ["unshare", "--user", `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, "--"];
  const passThrough = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"];
  // Without this bit access(2), which PostgreSQL asks about its own files, knows nothing of the capability.
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

/** The system's user for PostgreSQL, else nobody. */
async function unprivilegedUser(): Promise<{ uid: number; gid: number }> {
  const users = await readFile("/etc/passwd", "utf8").catch(() => "");
  const [, uid, gid] = users.match(/^postgres:[^:]*:(\d+):(\d+):/m) ?? [];
  return uid ? { uid: Number(uid), gid: Number(gid) } : { uid: NOBODY, gid: NOBODY };
}

/** Undefined when it works, else why not. */
async function tryIdentity(identity: Identity, dir: string, binary: string): Promise<string | undefined> {
  const probe = await mkdtemp(join(dir, "probe-"));
  try {
    await giveTo(identity.owner, probe);
    const script = 'cd "$1" && : > file && exec "$2" --version';
    const [file, ...args] = [...identity.prefix, "/bin/sh", "-c", script, "sh", probe, binary];
    return await new Promise((resolve) => {
      const { uid, gid } = identity;
      execFile(file as string, args, { uid, gid, cwd: "/" }, (error, _out, stderr) =>
        resolve(error ? (stderr.trim() || error.message).split("\n").at(-1) : undefined),
      );
    });
  } finally {
    await rm(probe, { recursive: true, force: true });
  }
}

/**
 * Make a folder and all in it the property of `owner`, the folder itself last, so that an interrupted run is
 * seen and done again. Nothing happens when the folder is the owner's already.
 */
export async function giveTo(owner: { uid: number; gid: number }, dir: string): Promise<void> {
  const { uid } = await lstat(dir);
  if (uid === owner.uid) return;
  for (const entry of await readdir(dir, { recursive: true })) {
    await lchown(join(dir, entry), owner.uid, owner.gid);
  }
  await lchown(dir, owner.uid, owner.gid);
}

/** Let other users pass through a folder of root's, but not list it. */
export async function letPass(dir: string): Promise<void> {
  if (process.getuid?.() === 0) await chmod(dir, 0o711);
}
