import { shellQuote } from "../../shared/shell-quote.ts";
import type { ServiceType } from "../../terms/services.ts";
import { BuildFailure, type BuildFailureCode } from "../build-failure.ts";
import type { BuildRuntime, BuildSettings } from "../port.ts";

/** The files that detection may read; paths are relative to the source's root. */
export type SourceTree = {
  exists(path: string): boolean;
  /** Returns undefined when there is no such file. */
  read(path: string): string | undefined;
  /** Returns the names of the folders in a folder ("" is the root); none when there is no such folder. */
  folders(path: string): string[];
  /** As `folders`, of files. */
  files(path: string): string[];
};

/** What detection considers besides the source. */
export type DetectionInput = BuildSettings & {
  type: ServiceType;
  /** Whether this builder can build Dockerfiles; one in the source then takes precedence over everything else. */
  containers?: true;
  /** Whether the operator has chosen an image with Cloud Native Buildpacks. */
  buildpacks?: object;
  /** Whether a program is installed where the build runs. */
  hasTool(name: string): boolean;
};

export type BuildStep = {
  run: string[];
  failure: "install_failed" | "compile_failed";
  /** What a failure means to the user, where the command does not say it. */
  message?: string;
};

/** Returns the command as a user would type it. */
export function shownCommand({ run }: BuildStep): string {
  return run[0] === "sh" && run[1] === "-c" ? run[2]! : run.join(" ");
}

/** Returns the step of a command that the user configured. */
export function commandStep(command: string, failure: BuildStep["failure"]): BuildStep {
  return { run: ["sh", "-c", command], failure };
}

/** How to build the source, and how to start the result. */
export type BuildPlan = {
  runtime: BuildRuntime;
  /** Why this runtime was chosen, as a sentence for the build log. */
  because: string;
  steps: BuildStep[];
  /** What the install steps produce, when another build may reuse it. */
  dependencies?: Dependencies;
  command?: string;
  /** Folders that come first on the PATH of the app and of its steps, relative to the app's folder. */
  path: string[];
  /** What to add to the failure when no buildpack takes part. */
  hint?: string;
  /** Path of the Dockerfile that is the whole plan. */
  dockerfile?: string;
  /**
   * The folder of a static site, relative to the app's. The artifact includes Berth's static file server, beside the
   * app's folder.
   */
  site?: string;
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

/**
 * Returns how a folder is served, and the step that makes sure of it after a build. With `fallback`, paths without a page
 * get the folder's index.html, as apps need that draw their pages in the browser.
 */
export function serveSite(
  site: string,
  fallback: boolean,
): { command: string; site: string; check: BuildStep } {
  const page = `${site}/index.html`;
  const check: BuildStep = {
    run: ["ls", page],
    failure: "compile_failed",
    message: `The build made no ${page}. Set the service's config.outputDirectory to the folder that it fills.`,
  };
  const option = fallback ? " --fallback" : "";
  return { command: `node ../${STATIC_SERVER_FILE} ${shellQuote(site)}${option}`, site, check };
}

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
