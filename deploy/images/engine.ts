import { execFile, spawn } from "node:child_process";

/** Builds and pushes images. */
export type Engine = {
  build: (options: BuildOptions) => Promise<void>;
  /** Pushes an image and returns its digest. */
  push: (image: string) => Promise<string>;
  /** Returns the content of a file in an image. */
  read: (image: string, path: string) => Promise<string>;
};

export type BuildOptions = {
  image: string;
  dockerfile: string;
  context: string;
  args: Record<string, string>;
  labels: Record<string, string>;
  /** Files that build steps can read, by name; the image does not keep them. */
  secrets: Record<string, string>;
};

type EngineOptions = {
  /** Use plain HTTP, or do not check certificates of registries. */
  insecure: boolean;
  /** Do not print the engine's own messages. */
  quiet?: boolean;
};

/** docker, with its daemon, whose own settings list plain HTTP registries. */
export function docker({ quiet }: EngineOptions): Engine {
  return {
    build: (options) =>
      execute(
        "docker",
        ["build", ...(quiet ? ["--quiet"] : []), "-t", options.image, ...buildArgs(options)],
        quiet,
      ),
    push: async (image) => {
      await execute("docker", ["push", ...(quiet ? ["--quiet"] : []), image], quiet);
      const digests = await capture("docker", [
        "image",
        "inspect",
        "--format",
        '{{join .RepoDigests "\\n"}}',
        image,
      ]);
      return digests.trim().split("\n")[0]?.split("@")[1] ?? "";
    },
    read: (image, path) => capture("docker", ["run", "--rm", "--entrypoint", "cat", image, path]),
  };
}

/** buildah, which needs no daemon. `store`: flags that say where it keeps its images. */
export function buildah({ insecure, quiet, store = [] }: EngineOptions & { store?: string[] }): Engine {
  // Root gains nothing from separate namespaces, which many machines refuse.
  const env = process.getuid?.() === 0 ? { BUILDAH_ISOLATION: "chroot", ...process.env } : process.env;
  const tls = `--tls-verify=${!insecure}`;
  return {
    build: (options) => {
      // In its own format Debian's buildah ignores HEALTHCHECK and SHELL.
      const flags = ["--format=docker", "--layers", tls, ...(quiet ? ["--quiet"] : [])];
      return execute(
        "buildah",
        [...store, "build", ...flags, "-t", options.image, ...buildArgs(options)],
        quiet,
        env,
      );
    },
    push: async (image) => {
      await execute("buildah", [...store, "push", "--quiet", tls, image, `docker://${image}`], quiet, env);
      return (
        await capture(
          "buildah",
          [...store, "inspect", "--type=image", "--format={{.FromImageDigest}}", image],
          env,
        )
      ).trim();
    },
    read: async (image, path) => {
      const container = (await capture("buildah", [...store, "from", "--pull-never", image], env)).trim();
      try {
        return await capture("buildah", [...store, "run", container, "cat", path], env);
      } finally {
        await capture("buildah", [...store, "rm", container], env);
      }
    },
  };
}

function buildArgs({ dockerfile, context, args, labels, secrets }: BuildOptions): string[] {
  const pairs = (flag: string, values: Record<string, string>) =>
    Object.entries(values).flatMap(([name, value]) => [flag, `${name}=${value}`]);
  const files = Object.entries(secrets).flatMap(([id, file]) => ["--secret", `id=${id},src=${file}`]);
  return ["-f", dockerfile, ...pairs("--build-arg", args), ...pairs("--label", labels), ...files, context];
}

/** Runs a program with its output on the terminal, unless `quiet`. */
function execute(file: string, args: string[], quiet?: boolean, env?: NodeJS.ProcessEnv): Promise<void> {
  if (quiet) return capture(file, args, env).then(() => {});
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { stdio: ["ignore", "inherit", "inherit"], env });
    child.on("error", reject);
    child.on("exit", (code) =>
      code === 0 ? resolve() : reject(new Error(`${file} ${args[0]} exited with ${code}`)),
    );
  });
}

/** Runs a program and returns its output. */
function capture(file: string, args: string[], env?: NodeJS.ProcessEnv): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(file, args, { env, maxBuffer: 64 << 20 }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout);
      reject(new Error(`${file} failed:\n${(stderr || stdout).trim().split("\n").slice(-20).join("\n")}`));
    });
  });
}
