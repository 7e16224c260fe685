import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runCommand } from "../../run-command.ts";
import { PATHS, type RegistryTarget } from "../job-request.ts";

export type Buildah = ReturnType<typeof setUpBuildah>;

/** What a call of buildah came to. */
export type BuildahResult = {
  code: number;
  /** Its last word, when it failed: without the word `Error`. */
  error: string;
  /** The instruction at which it stopped. */
  step?: string;
  lines: string[];
};

export type ImageBuild = {
  dockerfile: string;
  context: string;
  tag: string;
  labels: Record<string, string>;
  /** Build arguments, for files that declare them. */
  variables: Record<string, string>;
  /** Patterns of what is left out of the context, in place of the source's own file. */
  ignored?: string[];
  /** Folders that the steps see and the image does not keep. */
  mounts: { from: string; to: string; writable?: boolean }[];
  /** Its base images are there; what it names else is pulled. */
  pulled: boolean;
};

/**
 * buildah for one build. Credentials are in a file only while a pull or push that needs them is under way,
 * which is never while a step of the source runs: such a step may see whatever this process's user can read.
 */
export function setUpBuildah(work: string, registry: RegistryTarget, variables: Record<string, string>) {
  const run = join(PATHS.run, "berth");
  mkdirSync(run, { recursive: true, mode: 0o700 });
  const tmp = join(work, "tmp");
  mkdirSync(tmp, { recursive: true, mode: 0o700 });
  const registries = join(run, "registries.conf");
  writeFileSync(registries, registriesConf(registry));
  const authFile = join(run, "auth.json");
  const proxies = Object.entries(variables).filter(([name]) => /^(https?|no|all)_proxy$/i.test(name));
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: process.env.HOME ?? "/home/builder",
    LANG: "C.UTF-8",
    TMPDIR: tmp,
    XDG_RUNTIME_DIR: run,
    BUILDAH_ISOLATION: "chroot",
    STORAGE_DRIVER: process.env.STORAGE_DRIVER ?? "overlay",
    CONTAINERS_REGISTRIES_CONF: registries,
    ...(variables.SSL_CERT_FILE !== undefined && { SSL_CERT_FILE: certificateBundle() }),
    ...Object.fromEntries(proxies),
  };

  async function call(
    args: string[],
    log: (line: string) => void,
    signal: AbortSignal,
  ): Promise<BuildahResult> {
    const result: BuildahResult = { code: 0, error: "it gave no reason", lines: [] };
    const place = { cwd: work, env, folder: work };
    const take = (line: string) => {
      result.step = /^STEP \d+\/\d+: (.*)$/.exec(line)?.[1] ?? result.step;
      result.error = /^Error: (.*)$/.exec(line)?.[1] ?? result.error;
      // It says so twice, and then once more in its error.
      if (/^subprocess exited with status \d+$/.test(line)) return;
      const [, argument = ""] = /^STEP \d+\/\d+: ARG (\S+)$/.exec(line) ?? [];
      if (argument in variables) return; // not the source's own
      if (result.lines.length < 1_000) result.lines.push(line);
      log(line);
    };
    result.code = await runCommand(["buildah", ...args], place, take, signal);
    return result;
  }

  /** Runs with the registry's credentials at hand. */
  async function authorized(args: string[], log: (line: string) => void, signal: AbortSignal) {
    if (registry.auth === undefined) return call(args, log, signal);
    killLeftovers();
    writeFileSync(authFile, registry.auth, { mode: 0o600 });
    try {
      return await call([...args.slice(0, 1), "--authfile", authFile, ...args.slice(1)], log, signal);
    } finally {
      rmSync(authFile, { force: true });
    }
  }

  return {
    /** The id of the image in `lines`. */
    pull: (image: string, signal: AbortSignal) => authorized(["pull", "--quiet", image], () => {}, signal),

    async build(bud: ImageBuild, log: (line: string) => void, signal: AbortSignal): Promise<BuildahResult> {
      const pairs = (flag: string, given: Record<string, string>) =>
        Object.entries(given).flatMap(([name, value]) => [flag, `${name}=${value}`]);
      const mounts = bud.mounts.map(({ from, to, writable }) => `${from}:${to}:${writable ? "rw" : "ro"}`);
      const args = ["bud", "--format", "oci", "--layers=false", bud.pulled ? "--pull=false" : "--pull"];
      args.push(...pairs("--build-arg", bud.variables), ...pairs("--label", bud.labels));
      args.push(...mounts.flatMap((mount) => ["--volume", mount]));
      if (bud.ignored) {
        const file = join(run, "ignored");
        writeFileSync(file, bud.ignored.join("\n"));
        args.push("--ignorefile", file);
      }
      args.push("--tag", bud.tag, "--file", bud.dockerfile, bud.context);
      const result = await call(args, log, signal);
      killLeftovers();
      return result;
    },

    /** The user that an image says it runs as; empty for root. */
    async userOf(tag: string, signal: AbortSignal): Promise<string> {
      const format = "{{.OCIv1.Config.User}}";
      const result = await call(["inspect", "--type", "image", "--format", format, tag], () => {}, signal);
      if (result.code !== 0) throw new Error(`the image could not be looked at: ${result.error}`);
      return result.lines.join("").trim();
    },

    /** Its file of users; empty where it has none. */
    async usersIn(tag: string, signal: AbortSignal): Promise<string> {
      const made = await call(["from", "--pull-never", tag], () => {}, signal);
      const container = made.lines.at(-1);
      if (made.code !== 0 || container === undefined) return "";
      const shown = await call(
        ["run", "--user", "0", container, "--", "cat", "/etc/passwd"],
        () => {},
        signal,
      );
      killLeftovers();
      await call(["rm", container], () => {}, signal);
      return shown.code === 0 ? shown.lines.join("\n") : "";
    },

    /** Gives the digest under which the registry holds the image. */
    async push(tag: string, log: (line: string) => void, signal: AbortSignal) {
      const digestFile = join(run, "digest");
      const result = await authorized(["push", "--quiet", "--digestfile", digestFile, tag], log, signal);
      return { ...result, digest: result.code === 0 ? readFileSync(digestFile, "utf8").trim() : "" };
    },
  };
}

/** The operator's bundle, where one is mounted. */
export function certificateBundle(): string {
  return join(PATHS.authorities, "ca.crt");
}

/** Short names are Docker's, as people expect; the operator's registry is reached the way they said. */
function registriesConf({ push, pull, insecure }: RegistryTarget): string {
  const entry = (prefix: string) =>
    `[[registry]]\nprefix = ${JSON.stringify(prefix)}\nlocation = ${JSON.stringify(push)}\ninsecure = ${insecure}\n`;
  const prefixes = [...new Set([push, pull])];
  const host = push.split("/")[0]!;
  const whole = `[[registry]]\nlocation = ${JSON.stringify(host)}\ninsecure = ${insecure}\n`;
  return `unqualified-search-registries = ["docker.io"]\nshort-name-mode = "disabled"\n${whole}${prefixes.map(entry).join("")}`;
}

/**
 * What a step left running in the background ends before anything else happens. It runs as users that this
 * process owns but is not; signalling all there is reaches them too. Only in a pod of its own.
 */
function killLeftovers(): void {
  if (process.pid !== 1) return;
  try {
    process.kill(-1, "SIGKILL");
  } catch {
    // There is nothing else.
  }
}
