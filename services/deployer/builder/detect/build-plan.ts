import type { ServiceType } from "../../terms/services.ts";
import { BuildFailure, type BuildFailureCode } from "../build-failure.ts";
import type { BuildRuntime } from "../port.ts";

/** The files that detection may read; paths are relative to the source's root. */
export type SourceTree = {
  exists(path: string): boolean;
  /** Returns undefined when there is no such file. */
  read(path: string): string | undefined;
};

/** What detection considers besides the source. */
export type DetectionInput = {
  type: ServiceType;
  /** The service's configured start command. */
  command?: string;
  /** The configured path of the Dockerfile. */
  dockerfile?: string;
  /** Whether this builder can build Dockerfiles; one in the source then takes precedence over everything else. */
  containers?: true;
  /** Whether a program is installed where the build runs. */
  hasTool(name: string): boolean;
};

export type BuildStep = {
  run: string[];
  failure: "install_failed" | "compile_failed";
};

/** How to build the source, and how to start the result. */
export type BuildPlan = {
  runtime: BuildRuntime;
  /** Why this runtime was chosen, as a sentence for the build log. */
  because: string;
  steps: BuildStep[];
  /** What the install steps produce, when another build may reuse it. */
  dependencies?: Dependencies;
  command?: string;
  /** Folders that come first on the app's PATH, relative to the app's folder. */
  path: string[];
  /** Path of the Dockerfile that is the whole plan. */
  dockerfile?: string;
  /** The artifact includes Berth's static file server, beside the app's folder. */
  needsStaticServer?: true;
};

/** Installed dependencies that are determined by some files of the source and the versions of the tools. */
export type Dependencies = {
  kind: "node" | "python";
  /** The folder in the app that the install produces. */
  folder: string;
  /** The files that determine what is installed; the first is the one users know. */
  files: string[];
  /** Steps to run after the folder was copied from another build. */
  afterRestore: BuildStep[];
};

/** File name of the static server, which is placed in the folder above the app's. */
export const STATIC_SERVER_FILE = "static-server.mts";

/** Splits a plan's steps into those that install dependencies and those that compile the app. */
export function partitionSteps({ steps }: BuildPlan): { install: BuildStep[]; compile: BuildStep[] } {
  return {
    install: steps.filter((step) => step.failure === "install_failed"),
    compile: steps.filter((step) => step.failure === "compile_failed"),
  };
}

/** Throws a `BuildFailure` of stage `detect`. */
export function failDetection(code: BuildFailureCode, message: string): never {
  throw new BuildFailure("detect", code, message);
}
