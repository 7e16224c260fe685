import { execFile, spawn } from "node:child_process";

/** What builds and pushes images. */
export type Engine = {
  build: (options: BuildOptions) => Promise<void>;
  /** Push under this name; gives the digest. */
  push: (image: string) => Promise<string>;
  /** The text of a file in an image. */
  read: (image: string, path: string) => Promise<string>;
};

export type BuildOptions = {
  image: string;
  dockerfile: string;
  context: string;
  args: Record<string, string>;
  labels: Record<string, string>;
  /** Files that steps may read and the image does not keep, by their names. */
  secrets: Record<string, string>;
};

type EngineOptions = {
  /** Registries are reached by plain HTTP, or their certificates are not checked. */
  insecure: boolean;
  /** Leave the engine's own messages out. */
  quiet?: boolean;
};

/** docker, with its daemon; plain HTTP registries are the daemon's own setting. */
export function docker({ quiet }: EngineOptions): Engine {
  return {
    build: (options) =>
      show(
        "docker",
        ["build", ...(quiet ? ["--quiet"] : []), "-t", options.image, ...buildArgs(options)],
        quiet,
      ),
    push: async (image) => {
      await show("docker", ["push", ...(quiet ? ["--quiet"] : []), image], quiet);
      const digests = await tell("docker", [
        "image",
        "inspect",
        "--format",
        '{{join .RepoDigests "\\n"}}',
        image,
      ]);
      return digests.trim().split("\n")[0]?.split("@")[1] ?? "";
    },
    read: (image, path) => tell("docker", ["run", "--rm", "--entrypoint", "cat", image, path]),
  };
}

/** buildah, which needs no daemon. `store` are flags that say where it keeps its images. */
export function buildah({ insecure, quiet, store = [] }: EngineOptions & { store?: string[] }): Engine {
  // As root nothing is gained by namespaces of its own, which many machines refuse.
  const env = process.getuid?.() === 0 ? { BUILDAH_ISOLATION: "chroot", ...process.env } : process.env;
  const tls = `--tls-verify=${!insecure}`;
  return {
    build: (options) => {
      // Debian's buildah ignores a health check and SHELL in its own format only.
      const flags = ["--format=docker", "--layers", tls, ...(quiet ? ["--quiet"] : [])];
      return show(
        "buildah",
        [...store, "build", ...flags, "-t", options.image, ...buildArgs(options)],
        quiet,
        env,
      );
    },
    push: async (image) => {
      await show("buildah", [...store, "push", "--quiet", tls, image, `docker://${image}`], quiet, env);
      return (
        await tell(
          "buildah",
          [...store, "inspect", "--type=image", "--format={{.FromImageDigest}}", image],
          env,
        )
      ).trim();
    },
    read: async (image, path) => {
      const container = (await tell("buildah", [...store, "from", "--pull-never", image], env)).trim();
      try {
        return await tell("buildah", [...store, "run", container, "cat", path], env);
      } finally {
        await tell("buildah", [...store, "rm", container], env);
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

function show(file: string, args: string[], quiet?: boolean, env?: NodeJS.ProcessEnv): Promise<void> {
  if (quiet) return tell(file, args, env).then(() => {});
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { stdio: ["ignore", "inherit", "inherit"], env });
    child.on("error", reject);
    child.on("exit", (code) =>
      code === 0 ? resolve() : reject(new Error(`${file} ${args[0]} failed (${code})`)),
    );
  });
}

function tell(file: string, args: string[], env?: NodeJS.ProcessEnv): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(file, args, { env, maxBuffer: 64 << 20 }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout);
      reject(new Error(`${file} failed:\n${(stderr || stdout).trim().split("\n").slice(-20).join("\n")}`));
    });
  });
}
