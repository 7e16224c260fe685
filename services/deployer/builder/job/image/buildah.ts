import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runCommand } from "../../run-command.ts";
import { PATHS, type RegistryTarget } from "../job-request.ts";
import { CERTIFICATE_BUNDLE } from "./certificates.ts";

export type Buildah = ReturnType<typeof setUpBuildah>;

/** The outcome of one call of buildah. */
export type BuildahResult = {
  code: number;
  /** Its error message when it failed, without the prefix `Error:`. */
  error: string;
  /** The instruction at which it stopped. */
  step?: string;
  lines: string[];
};

export type BuildahBuild = {
  dockerfile: string;
  context: string;
  tag: string;
  labels: Record<string, string>;
  /** Build arguments, for files that declare them. */
  variables: Record<string, string>;
  /** Patterns of paths left out of the context; they replace the source's own ignore file. */
  ignored?: string[];
  /** Folders that steps see and the image does not keep. */
  mounts: { from: string; to: string; writable?: boolean }[];
  /** Whether its base images were pulled before; otherwise buildah pulls them. */
  pulled: boolean;
};

export type ContainerRun = {
  /** `uid:gid` */
  user: string;
  /** Not secret: other processes see it. */
  env: Record<string, string>;
  mounts: BuildahBuild["mounts"];
  command: string[];
};

/** The line before a step; a build of several stages says the stage first. */
const STEP = /^(?:\[\d+\/\d+\] )?STEP \d+\/\d+: (.*)$/;

/**
 * Returns buildah for one build. Credentials are in a file only during a pull or push, which is never while a step of
 * the source runs: such a step may see whatever this process's user can read.
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
    ...(variables.SSL_CERT_FILE !== undefined && { SSL_CERT_FILE: CERTIFICATE_BUNDLE }),
    ...Object.fromEntries(proxies),
  };

  const call = (args: string[], log: (line: string) => void, signal: AbortSignal) =>
    callProgram(["buildah", ...args], log, signal);

  async function callProgram(
    command: string[],
    log: (line: string) => void,
    signal: AbortSignal,
  ): Promise<BuildahResult> {
    const result: BuildahResult = { code: 0, error: "it gave no reason", lines: [] };
    const context = { cwd: work, env, folder: work };
    const onLine = (line: string) => {
      const step = STEP.exec(line)?.[1];
      result.step = step ?? result.step;
      result.error = /^Error: (.*)$/.exec(line)?.[1] ?? result.error;
      // buildah prints this twice, and repeats it in its error.
      if (/^subprocess exited with status \d+$/.test(line)) return;
      const [, argument = ""] = /^ARG (\S+)$/.exec(step ?? "") ?? [];
      if (argument in variables) return; // added by `withArguments`
      if (result.lines.length < 1_000) result.lines.push(line);
      log(line);
    };
    result.code = await runCommand(command, context, onLine, signal);
    return result;
  }

  /** Calls buildah with the registry's credentials. */
  async function callAuthorized(args: string[], log: (line: string) => void, signal: AbortSignal) {
    if (registry.auth === undefined) return call(args, log, signal);
    killLeftovers();
    writeFileSync(authFile, registry.auth, { mode: 0o600 });
    try {
      return await call([...args.slice(0, 1), "--authfile", authFile, ...args.slice(1)], log, signal);
    } finally {
      rmSync(authFile, { force: true });
    }
  }

  /** Runs a program as the root of the user namespace in which containers are. */
  function callInNamespace(command: string[], signal: AbortSignal): Promise<BuildahResult> {
    if (process.getuid?.() !== 0) return call(["unshare", ...command], () => {}, signal);
    return callProgram(command, () => {}, signal);
  }

  async function inspect(id: string, format: string, signal: AbortSignal): Promise<string[]> {
    const result = await call(["inspect", "--type", "image", "--format", format, id], () => {}, signal);
    if (result.code !== 0) throw new Error(`the image could not be inspected: ${result.error}`);
    return result.lines.filter((line) => line !== "");
  }

  return {
    /** The last of `lines` is the image's id. */
    pull: (image: string, signal: AbortSignal) =>
      callAuthorized(["pull", "--quiet", image], () => {}, signal),

    async build(
      options: BuildahBuild,
      log: (line: string) => void,
      signal: AbortSignal,
    ): Promise<BuildahResult> {
      const pairs = (flag: string, given: Record<string, string>) =>
        Object.entries(given).flatMap(([name, value]) => [flag, `${name}=${value}`]);
      const mounts = options.mounts.map(
        ({ from, to, writable }) => `${from}:${to}:${writable ? "rw" : "ro"}`,
      );
      const args = ["bud", "--format", "oci", "--layers=false", options.pulled ? "--pull=false" : "--pull"];
      args.push(...pairs("--build-arg", options.variables), ...pairs("--label", options.labels));
      args.push(...mounts.flatMap((mount) => ["--volume", mount]));
      if (options.ignored) {
        const file = join(run, "ignored");
        writeFileSync(file, options.ignored.join("\n"));
        args.push("--ignorefile", file);
      }
      args.push("--tag", options.tag, "--file", options.dockerfile, options.context);
      const result = await call(args, log, signal);
      killLeftovers();
      return result;
    },

    /** Returns the user that an image is configured to run as; empty for root. */
    async userOf(tag: string, signal: AbortSignal): Promise<string> {
      return (await inspect(tag, "{{.OCIv1.Config.User}}", signal)).join("").trim();
    },

    /** Returns those of these labels that an image has. */
    async labelsOf(id: string, names: string[], signal: AbortSignal): Promise<Record<string, string>> {
      const labels: Record<string, string> = {};
      for (const name of names) {
        const text = (await inspect(id, `{{index .OCIv1.Config.Labels "${name}"}}`, signal)).join("\n");
        if (text !== "") labels[name] = text;
      }
      return labels;
    },

    /** Returns an image's environment. */
    async environmentOf(id: string, signal: AbortSignal): Promise<Record<string, string>> {
      const lines = await inspect(id, "{{range .OCIv1.Config.Env}}{{println .}}{{end}}", signal);
      return Object.fromEntries(
        lines
          .filter((line) => line.includes("="))
          .map((line) => [line.split("=")[0]!, line.slice(line.indexOf("=") + 1)]),
      );
    },

    async entrypointOf(id: string, signal: AbortSignal): Promise<string[]> {
      return inspect(id, "{{range .OCIv1.Config.Entrypoint}}{{println .}}{{end}}", signal);
    },

    /** Writes an image to a folder, as an OCI layout. */
    async saveAsFiles(id: string, folder: string, signal: AbortSignal): Promise<void> {
      const saved = await call(
        ["push", "--quiet", "--format", "oci", id, `oci:${folder}:latest`],
        () => {},
        signal,
      );
      if (saved.code !== 0) throw new Error(`the image could not be written to files: ${saved.error}`);
    },

    /** Returns the id of the image that an OCI layout describes. */
    async loadFiles(folder: string, signal: AbortSignal): Promise<string> {
      const loaded = await call(["pull", "--quiet", `oci:${folder}`], () => {}, signal);
      if (loaded.code !== 0) throw new Error(`the image could not be read from files: ${loaded.error}`);
      return loaded.lines.at(-1) ?? "";
    },

    /** Gives files to a user of containers, by its number there; `0:0` is this process's own. */
    async changeOwner(paths: string[], owner: string, signal: AbortSignal): Promise<void> {
      const changed = await callInNamespace(["chown", "-hR", owner, ...paths], signal);
      if (changed.code !== 0) throw new Error(`the owner of files could not be changed: ${changed.error}`);
    },

    /** Copies a folder of an image into one that exists; returns whether that succeeded. */
    async copyOut(id: string, folder: string, to: string, signal: AbortSignal): Promise<boolean> {
      const made = await call(["from", "--pull-never", id], () => {}, signal);
      const container = made.lines.at(-1);
      if (made.code !== 0 || container === undefined) return false;
      const script = 'from=$(buildah mount "$0") && cp -a "$from/$1/." "$2"';
      const copied = await callInNamespace(["sh", "-c", script, container, folder, to], signal);
      await call(["rm", container], () => {}, signal);
      return copied.code === 0;
    },

    /** Runs a command in a new container of an image, of which nothing but what it writes to the mounts is kept. */
    async runIn(
      id: string,
      { user, env, mounts, command }: ContainerRun,
      log: (line: string) => void,
      signal: AbortSignal,
    ): Promise<BuildahResult> {
      const made = await call(["from", "--pull-never", id], () => {}, signal);
      const container = made.lines.at(-1);
      if (made.code !== 0 || container === undefined) return made;
      const args = ["run", "--user", user];
      args.push(...Object.entries(env).flatMap(([name, value]) => ["--env", `${name}=${value}`]));
      args.push(
        ...mounts.flatMap(({ from, to, writable }) => [
          "--volume",
          `${from}:${to}:${writable ? "rw" : "ro"}`,
        ]),
      );
      const result = await call([...args, container, "--", ...command], log, signal);
      killLeftovers();
      return result;
    },

    /** Returns the content of an image's /etc/passwd; empty when it has none. */
    async readPasswd(tag: string, signal: AbortSignal): Promise<string> {
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

    /** Returns the image's digest in the registry, besides how the call ended. */
    async push(tag: string, log: (line: string) => void, signal: AbortSignal) {
      const digestFile = join(run, "digest");
      const result = await callAuthorized(["push", "--quiet", "--digestfile", digestFile, tag], log, signal);
      return { ...result, digest: result.code === 0 ? readFileSync(digestFile, "utf8").trim() : "" };
    },
  };
}

/** Resolves short names at Docker Hub, as people expect, and reaches the operator's registry as configured. */
function registriesConf({ push, pull, insecure }: RegistryTarget): string {
  const entry = (prefix: string) =>
    `[[registry]]\nprefix = ${JSON.stringify(prefix)}\nlocation = ${JSON.stringify(push)}\ninsecure = ${insecure}\n`;
  const prefixes = [...new Set([push, pull])];
  const host = push.split("/")[0]!;
  const whole = `[[registry]]\nlocation = ${JSON.stringify(host)}\ninsecure = ${insecure}\n`;
  return `unqualified-search-registries = ["docker.io"]\nshort-name-mode = "disabled"\n${whole}${prefixes.map(entry).join("")}`;
}

/**
 * Kills what a step left running in the background. It runs as users of this process's range, which a signal to all
 * processes reaches; this process has to be the first of its pod, where there is nothing else to hit.
 */
function killLeftovers(): void {
  if (process.pid !== 1) return;
  try {
    process.kill(-1, "SIGKILL");
  } catch {
    // no other process is left
  }
}
