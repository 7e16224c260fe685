import type { ServiceType } from "../../runtime/port.ts";
import type {
  BuildFailureCode,
  BuildFailureStage,
  BuildLimits,
  BuildResult,
  BuildStage,
  GitBuildSource,
} from "../port.ts";

/** What a build's program is given, through its Secret: it holds a signed URL, tokens, credentials. */
export type JobRequest = {
  buildId: string;
  serviceId: string;
  type: ServiceType;
  source: { kind: "archive"; url: string; digest?: string } | GitBuildSource;
  limits: BuildLimits;
  dockerfile?: string;
  command?: string;
  port: number;
  /** From when the program begins. */
  timeoutMs: number;
  registry: RegistryTarget;
  baseImages: BaseImages;
  /** Variables that the source's build steps see, and the image does not keep. Not secret. */
  variables: Record<string, string>;
};

export type RegistryTarget = {
  /** Where images are pushed: `host[:port]/path`. */
  push: string;
  /** What nodes call the same place. */
  pull: string;
  /** It is reached by plain HTTP, or its certificate is not checked. */
  insecure: boolean;
  /** A docker configuration, as JSON, with the credentials for it. */
  auth?: string;
};

/** What generated images are built from. */
export type BaseImages = {
  /** Node.js with npm; also for what is started by a command alone. */
  node: string;
  /** Python 3 with venv and pip. */
  python: string;
  /** The Go toolchain. What it compiles runs in `static`. */
  go: string;
  /** A shell and Node.js, which serves static sites. */
  static: string;
};

/** One line that the program writes to its output. `n` counts them: who reads again knows what is new. */
export type JobRecord = { n: number } & (
  | { stage: BuildStage }
  | { line: string }
  | { commit: string }
  | { end: JobEnd }
);

/** How a build ended; the pod's termination message as well. */
export type JobEnd =
  | { result: BuildResult }
  | { failure: { stage: BuildFailureStage; code: BuildFailureCode; message: string } }
  /** By no fault of the source: it is worth another try. */
  | { broken: string };

/** The variable in which the program finds its request. */
export const REQUEST_VARIABLE = "BERTH_BUILD";

/** Folders that the Job mounts, and the program uses. */
export const PATHS = {
  /** What buildah stores. */
  storage: "/home/builder/.local/share/containers",
  /** The source and what the build needs for a while. */
  work: "/var/tmp",
  /** In memory. */
  run: "/run/user/1000",
  /** Certificates of the operator. */
  authorities: "/etc/berth/ca",
  terminationMessage: "/dev/termination-log",
} as const;

/** What builds push to, in the place that the operator names. */
export const REPOSITORIES = ["apps", "cache"] as const;

/** The one tag under which an image is pushed, so that it is found again. */
export function imageTag(push: string, buildId: string): string {
  return `${push}/apps:${buildId}`;
}

/** Where the installed dependencies of a service's last build are kept. */
export function cacheTag(push: string, serviceId: string): string {
  return `${push}/cache:${serviceId}`;
}

/** Labels of an image: what is known of a build when its image is all there is. */
export const IMAGE_LABELS = {
  build: "dev.berth.build",
  service: "dev.berth.service",
  runtime: "dev.berth.runtime",
  command: "dev.berth.command",
  commit: "dev.berth.commit",
  /** Of kept dependencies: what they were installed from. */
  key: "dev.berth.key",
} as const;
