import { appRepository } from "../../images/app-repositories.ts";
import type { BuildFailureCode, BuildFailureStage } from "../build-failure.ts";
import type { BuildRequest, BuildResult, BuildSettings, BuildStage, GitBuildSource } from "../port.ts";

/** The input of a build's program, in the build's Secret: it contains a signed URL, tokens and credentials. */
export type JobRequest = Pick<BuildRequest, "buildId" | "serviceId" | "type" | "limits" | "port" | "site"> &
  BuildSettings & {
    /** To whose path the image goes; omitted where all accounts have one. */
    accountId?: string;
    source: { kind: "archive"; url: string; digest?: string } | GitBuildSource;
    /** Counts from the program's start. */
    timeoutMs: number;
    registry: RegistryTarget;
    baseImages: BaseImages;
    /** The operator's choice for sources that nothing else builds. */
    buildpacks?: BuildpacksImages;
    /** The operator's, which build steps see and the image does not keep. Not secret. */
    variables: Record<string, string>;
  };

export type RegistryTarget = {
  /** Where images are pushed: `host[:port]/path`. */
  push: string;
  /** The name by which nodes reach the same repositories. */
  pull: string;
  /** The registry is reached by plain HTTP, or its certificate is not verified. */
  insecure: boolean;
  /** A docker configuration, as JSON, with the credentials for it. */
  auth?: string;
};

/** The images of Cloud Native Buildpacks. */
export type BuildpacksImages = {
  /** Has the lifecycle and the buildpacks. */
  builder: string;
  /** What apps run in; the builder's own choice unless given. */
  runImage?: string;
};

/** The base images of generated Dockerfiles. */
export type BaseImages = {
  /** Node.js with npm; also for sources that only have a start command. */
  node: string;
  /** Python 3 with venv and pip. */
  python: string;
  /** The Go toolchain. What it compiles runs in `static`. */
  go: string;
  /** A shell, and Node.js for serving static sites. */
  static: string;
};

/** One line of the program's output. `n` counts them, so that whoever reads the log again knows what is new. */
export type JobRecord = { n: number } & (
  | { stage: BuildStage }
  | { line: string }
  | { commit: string }
  | { end: JobEnd }
);

/** How a build ended; also the content of the pod's termination message. */
export type JobEnd =
  | { result: BuildResult }
  | { failure: { stage: BuildFailureStage; code: BuildFailureCode; message: string } }
  /** Not a fault of the source: a retry may succeed. */
  | { broken: string };

/** The environment variable that contains the program's request. */
export const REQUEST_VARIABLE = "BERTH_BUILD";

/** Paths that the Job mounts and the program uses. */
export const PATHS = {
  /** The storage of buildah. */
  storage: "/home/builder/.local/share/containers",
  /** The source and temporary files. */
  work: "/var/tmp",
  /** In memory. */
  run: "/run/user/1000",
  /** The operator's certificates. */
  authorities: "/etc/berth/ca",
  terminationMessage: "/dev/termination-log",
} as const;

/** The repositories that builds push to, below the path that the operator configures. */
export const REPOSITORIES = [appRepository(), "cache"] as const;

/** Returns the only tag of a build's image, by which it is found again. */
export function imageTag(push: string, { buildId, accountId }: Pick<JobRequest, "buildId" | "accountId">) {
  return `${push}/${appRepository(accountId)}:${buildId}`;
}

/** Returns the tag of the image with the dependencies of a service's last build. */
export function cacheTag(push: string, serviceId: string): string {
  return `${push}/cache:${serviceId}`;
}

/** Labels of an image: they describe its build when nothing else of it is left. */
export const IMAGE_LABELS = {
  build: "dev.berth.build",
  service: "dev.berth.service",
  runtime: "dev.berth.runtime",
  command: "dev.berth.command",
  commit: "dev.berth.commit",
  /** A JSON array. */
  buildpacks: "dev.berth.buildpacks",
  /** Of an image with dependencies: the hash of what they were installed from. */
  key: "dev.berth.key",
} as const;
