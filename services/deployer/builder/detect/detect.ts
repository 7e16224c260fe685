import type { ServiceType } from "../../terms/services.ts";
import {
  type BuildPlan,
  type BuildStep,
  commandStep,
  type DetectionInput,
  failDetection,
  type SourceTree,
  serveSite,
} from "./build-plan.ts";
import { isLeftToBuildpacks, planBuildpacks } from "./buildpacks.ts";
import { detectDeno } from "./deno.ts";
import { detectNode } from "./node.ts";
import { detectPython } from "./python.ts";

const LOOKED_FOR =
  "Procfile, Dockerfile, package.json (Node.js, Bun), deno.json (Deno), requirements.txt, pyproject.toml, Pipfile, main.py or app.py (Python), go.mod (Go)";

/**
 * Returns how to build a source tree (docs/deployments.md#builds). Its Dockerfile comes first, where one can be built;
 * otherwise the files of its language decide, and a Procfile names the start command. Throws `BuildFailure` with
 * stage `detect`; with `runtime_not_detected`, `planUndetected` may still have a plan.
 */
export function detectRuntime(tree: SourceTree, input: DetectionInput): BuildPlan {
  if (input.builder === "buildpacks")
    return planBuildpacks(input, "The service's config.builder asks for Cloud Native Buildpacks.");
  const folder = input.rootDirectory;
  const procfile = tree.read(folder === undefined ? "Procfile" : `${folder}/Procfile`);
  if (folder === undefined && (input.containers || procfile === undefined)) {
    const dockerfile = findDockerfile(tree, input.dockerfile);
    if (dockerfile !== undefined) return planDockerfile(dockerfile, input);
  }
  const byProcfile = procfile !== undefined && input.command === undefined;
  const command = byProcfile ? readProcfile(procfile, input.type) : input.command;
  const plan = detectLanguage(tree, { ...input, command });
  if (!plan && command !== undefined && isLeftToBuildpacks(tree, input)) return planUndetected(input);
  if (byProcfile) {
    const because = `Its Procfile sets the start command.${releaseHint(procfile)}`;
    return plan
      ? { ...plan, because: `${plan.because} ${because}` }
      : { runtime: "procfile", because, steps: configuredSteps(input), command, path: [] };
  }
  if (plan) return plan;
  if (command === undefined) return failDetection("runtime_not_detected", notDetected(input));
  const because = "No language was detected; the service's start command runs the source.";
  return { runtime: "command", because, steps: configuredSteps(input), command, path: [] };
}

/**
 * Returns the plan of a source that nothing else can build. `folders` are those in which something is detected. Throws
 * like `detectRuntime` where there are no buildpacks.
 */
export function planUndetected(input: DetectionInput, folders: string[] = []): BuildPlan {
  const hint = hintAt(folders);
  if (input.buildpacks === undefined)
    return failDetection("runtime_not_detected", `${notDetected(input)}${hint}`);
  const because = "Nothing else is known to build the source: leaving it to Cloud Native Buildpacks.";
  return { ...planBuildpacks(input, because), hint };
}

/** Returns what to do where these folders can be built and the root cannot, as sentences after another one; "" without any. */
export function hintAt(folders: string[]): string {
  return folders.length === 0
    ? ""
    : ` These folders can be built: ${folders.join(", ")}. Set the service's config.rootDirectory to the one that it runs.`;
}

/** The steps of a source in no language that is known. */
function configuredSteps({ installCommand, buildCommand }: DetectionInput): BuildStep[] {
  return [
    ...(installCommand === undefined ? [] : [commandStep(installCommand, "install_failed")]),
    ...(buildCommand === undefined ? [] : [commandStep(buildCommand, "compile_failed")]),
  ];
}

function detectLanguage(tree: SourceTree, input: DetectionInput): BuildPlan | undefined {
  return (
    detectNode(tree, input) ??
    detectDeno(tree, input) ??
    detectPython(tree, input) ??
    detectGo(tree, input) ??
    detectStatic(tree, input)
  );
}

function planDockerfile(dockerfile: string, { containers }: DetectionInput): BuildPlan {
  if (!containers)
    failDetection(
      "dockerfile_needs_cluster",
      `${dockerfile} needs a cluster: this Berth builds without containers. Add a Procfile with a line “web: <command>”, or install Berth on Kubernetes.`,
    );
  return {
    runtime: "dockerfile",
    because: `Building the source's ${dockerfile}.`,
    steps: [],
    path: [],
    dockerfile,
  };
}

/** Returns the path of the source's Dockerfile, if it has one; throws when the configured one is missing. */
function findDockerfile(tree: SourceTree, configured: string | undefined): string | undefined {
  const path = configured ?? "Dockerfile";
  if (tree.exists(path)) return path;
  if (configured === undefined) return undefined;
  return failDetection(
    "dockerfile_missing",
    `The source has no ${configured}, which the service's configuration names as its Dockerfile.`,
  );
}

/** Returns the commands of a Procfile by the names of their lines. */
function readProcesses(procfile: string): Map<string, string> {
  const lines = procfile.split(/\r?\n/).map((line) => /^([A-Za-z0-9_-]+):\s*(\S.*)$/.exec(line.trim()));
  return new Map(lines.flatMap((line) => (line ? [[line[1]!, line[2]!.trim()] as const] : [])));
}

/** On Heroku, this line runs before each release. Here the service's configuration says what does. */
function releaseHint(procfile: string): string {
  return readProcesses(procfile).has("release")
    ? " Its line “release” is not run: set the service's config.releaseCommand to what has to run before each deployment."
    : "";
}

/** Returns the command of the Procfile's line for this type of service. */
function readProcfile(procfile: string, type: ServiceType): string {
  const processes = readProcesses(procfile);
  const found = [...processes.keys()].join(", ") || "none";
  return (
    processes.get(type) ??
    failDetection(
      "start_command_missing",
      `The Procfile has no line “${type}: <command>” (its lines: ${found}).`,
    )
  );
}

function detectGo(tree: SourceTree, input: DetectionInput): BuildPlan | undefined {
  if (!tree.exists("go.mod")) return undefined;
  if (!input.hasTool("go"))
    failDetection("toolchain_missing", "This is a Go app, but Go is not installed on this machine.");
  const configured = configuredSteps(input);
  const compile = (): BuildStep => ({
    run: ["go", "build", "-buildvcs=false", "-o", "../bin/app", findGoProgram(tree)],
    failure: "compile_failed",
  });
  return {
    runtime: "go",
    because: "Detected a Go app: it has a go.mod.",
    steps: input.buildCommand === undefined ? [...configured, compile()] : configured,
    command: input.command ?? "../bin/app",
    path: ["../bin"],
  };
}

/** Returns the folder of a Go module's program: its root, or the one folder of `cmd` that has one. */
function findGoProgram(tree: SourceTree): string {
  const isProgram = (folder: string) =>
    tree.files(folder).some((name) => {
      if (!name.endsWith(".go") || name.endsWith("_test.go")) return false;
      return /^package main\b/m.test(tree.read(folder ? `${folder}/${name}` : name) ?? "");
    });
  if (isProgram("")) return ".";
  const found = tree
    .folders("cmd")
    .map((name) => `cmd/${name}`)
    .filter(isProgram);
  if (found.length > 1)
    failDetection(
      "start_command_missing",
      `This Go app has several programs: ${found.join(", ")}. Set the service's config.buildCommand to build the one that it runs: go build -o ../bin/app ./${found[0]}`,
    );
  return found[0] === undefined ? "." : `./${found[0]}`;
}

/** A site that is in the source as it is, or made by the service's own build command. */
function detectStatic(tree: SourceTree, input: DetectionInput): BuildPlan | undefined {
  const { type, command, outputDirectory } = input;
  if (type !== "web" || command !== undefined) return undefined;
  const { check, ...served } = serveSite(outputDirectory ?? ".", outputDirectory !== undefined);
  const steps = configuredSteps(input);
  const isThere = tree.exists(outputDirectory === undefined ? "index.html" : `${outputDirectory}/index.html`);
  if (!isThere && (outputDirectory === undefined || steps.length === 0)) return undefined;
  return {
    runtime: "static",
    because: `Detected a static site: ${steps.length > 0 ? "its build command makes it" : "it has an index.html"}.`,
    steps: steps.length > 0 ? [...steps, check] : [],
    ...served,
    path: [],
  };
}

function notDetected({ type, containers }: DetectionInput): string {
  const site = type === "web" ? ", index.html (static site)" : "";
  const others = containers
    ? "PHP, Ruby, Java, .NET and others are built by Cloud Native Buildpacks, which the operator of this Berth can turn on."
    : "PHP, Ruby, Java, .NET and others need a Berth on a cluster.";
  return `Nothing in the root of the source says how to run it. Looked for: ${LOOKED_FOR}${site}. Pack the working directory itself, or add a Procfile with a line “${type}: <command>”. ${others}`;
}
