import type { ServiceType } from "../../runtime/port.ts";
import { BuildFailure, type BuildFailureCode, type BuildRuntime } from "../port.ts";
import { type Dependencies, nodeDependencies, pythonDependencies } from "./dependencies.ts";

/** What detection may look at: paths relative to the source's root. */
export type SourceTree = {
  exists(path: string): boolean;
  /** Undefined when there is no such file. */
  read(path: string): string | undefined;
};

export type Wanted = {
  type: ServiceType;
  /** The service's own start command. */
  command?: string;
  dockerfile?: string;
  /** Dockerfiles can be built: one that is there comes before all else. */
  containers?: true;
  /** Whether a program is there to build with. */
  hasTool(name: string): boolean;
};

export type BuildStep = {
  run: string[];
  failure: "install_failed" | "compile_failed";
};

/** How to build the source and start what comes of it. */
export type BuildPlan = {
  runtime: BuildRuntime;
  /** What decided, as a sentence for the build log. */
  because: string;
  steps: BuildStep[];
  /** What the install steps make, when another build may take it over. */
  dependencies?: Dependencies;
  command?: string;
  /** Folders of the app that come first on PATH. */
  path: string[];
  /** The file that says it all. */
  dockerfile?: string;
  /** The small file server of Berth comes with the artifact, beside the app's folder. */
  needsStaticServer?: true;
};

/** Where the static server lies, seen from the app's folder. */
export const STATIC_SERVER_FILE = "static-server.mts";

/**
 * Decides how to build a source tree (docs/deployments.md#builds): by its Dockerfile, which needs a cluster; else a
 * Procfile names the start command, and the files of the language decide. Throws `BuildFailure` with stage
 * `detect`.
 */
export function detectRuntime(tree: SourceTree, wanted: Wanted): BuildPlan {
  const dockerfile = wanted.containers && dockerfileOf(tree, wanted.dockerfile);
  if (dockerfile !== undefined)
    return { runtime: "dockerfile", because: `It has a ${dockerfile}.`, steps: [], path: [], dockerfile };
  const procfile = tree.read("Procfile");
  const command = wanted.command ?? (procfile === undefined ? undefined : processOf(procfile, wanted.type));
  if (procfile === undefined && dockerfileOf(tree, wanted.dockerfile) !== undefined)
    refuse("dockerfile_needs_cluster", needsCluster(wanted.dockerfile));
  const needs = { ...wanted, command };
  const plan =
    detectNode(tree, needs) ??
    detectPython(tree, needs) ??
    detectGo(tree, needs) ??
    detectStatic(tree, needs);
  const because =
    procfile !== undefined && wanted.command === undefined ? "Its Procfile says how to start it." : undefined;
  if (plan) return { ...plan, ...(because && { because: `${plan.because} ${because}` }) };
  if (command === undefined) return refuse("runtime_not_detected", notDetected(wanted.type));
  return procfile !== undefined && wanted.command === undefined
    ? { runtime: "procfile", because: because!, steps: [], command, path: [] }
    : {
        runtime: "command",
        because: "The service's start command is all there is.",
        steps: [],
        command,
        path: [],
      };
}

/** The source's Dockerfile, if it has one; the one that is configured has to be there. */
function dockerfileOf(tree: SourceTree, configured: string | undefined): string | undefined {
  const path = configured ?? "Dockerfile";
  if (tree.exists(path)) return path;
  if (configured === undefined) return undefined;
  return refuse(
    "dockerfile_missing",
    `The source has no ${configured}, which the service's configuration names.`,
  );
}

function needsCluster(path = "Dockerfile"): string {
  return `${path} needs a cluster: this Berth builds without containers. Add a Procfile with a line “web: <command>”, or install Berth on Kubernetes.`;
}

/** The command of the Procfile's line for this type of service. */
function processOf(procfile: string, type: ServiceType): string {
  const lines = procfile.split(/\r?\n/).map((line) => /^([A-Za-z0-9_-]+):\s*(\S.*)$/.exec(line.trim()));
  const processes = new Map(
    lines.flatMap((line) => (line ? [[line[1]!, line[2]!.trim()]] : [])) as [string, string][],
  );
  const found = [...processes.keys()].join(", ") || "none";
  return (
    processes.get(type) ??
    refuse("start_command_missing", `The Procfile has no line “${type}: <command>” (it has: ${found}).`)
  );
}

type PackageJson = {
  main?: unknown;
  scripts?: Record<string, unknown>;
  dependencies?: object;
  devDependencies?: object;
  optionalDependencies?: object;
  workspaces?: unknown;
};

function detectNode(tree: SourceTree, wanted: Wanted): BuildPlan | undefined {
  const text = tree.read("package.json");
  if (text === undefined) return undefined;
  const pkg = parsePackage(text);
  const script = (name: string) =>
    typeof pkg.scripts?.[name] === "string" ? (pkg.scripts[name] as string) : undefined;
  const builds = script("build") !== undefined;
  const some = (...parts: (object | undefined)[]) =>
    parts.some((part) => part && Object.keys(part).length > 0);
  const installs =
    some(pkg.dependencies, pkg.optionalDependencies, builds ? pkg.devDependencies : undefined) ||
    pkg.workspaces !== undefined;
  if ((installs || builds) && !wanted.hasTool("npm"))
    refuse("toolchain_missing", "This is a Node.js app, and npm is not on this machine.");
  const locked = tree.exists("package-lock.json") || tree.exists("npm-shrinkwrap.json");
  const steps: BuildStep[] = [];
  if (installs) {
    const omit = builds ? ["--include=dev"] : ["--omit=dev"];
    const run = ["npm", locked ? "ci" : "install", ...omit, "--no-audit", "--no-fund", "--no-progress"];
    steps.push({ run, failure: "install_failed" });
  }
  if (builds) steps.push({ run: ["npm", "run", "build"], failure: "compile_failed" });
  const because = `It is a Node.js app: it has a package.json${installs ? "" : " without dependencies"}.`;
  const command = wanted.command ?? startOfNode(tree, pkg, script);
  const dependencies = installs ? nodeDependencies(tree) : undefined;
  return { runtime: "node", because, steps, dependencies, command, path: ["node_modules/.bin"] };
}

function startOfNode(
  tree: SourceTree,
  pkg: PackageJson,
  script: (name: string) => string | undefined,
): string {
  const start = script("start");
  if (start !== undefined)
    return script("prestart") === undefined ? start : `(${script("prestart")}) && ${start}`;
  const main = typeof pkg.main === "string" ? pkg.main.replace(/^\.\//, "") : undefined;
  const file = [main, "server.js", "index.js"].find((one) => one !== undefined && tree.exists(one));
  if (file !== undefined) return `node ${quote(file)}`;
  return refuse(
    "start_command_missing",
    "The package.json has no “start” script, and there is no server.js or index.js: say how to start the app.",
  );
}

function parsePackage(text: string): PackageJson {
  try {
    const value = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  } catch {}
  return refuse("source_invalid", "The package.json is not valid JSON.");
}

function detectPython(tree: SourceTree, wanted: Wanted): BuildPlan | undefined {
  const requirements = tree.read("requirements.txt");
  const project = tree.read("pyproject.toml");
  const start = ["main.py", "app.py"].find((file) => tree.exists(file));
  if (requirements === undefined && project === undefined && start === undefined) return undefined;
  if (!wanted.hasTool("python3"))
    refuse("toolchain_missing", "This is a Python app, and python3 is not on this machine.");
  const command =
    wanted.command ??
    (start === undefined
      ? refuse(
          "start_command_missing",
          "This is a Python app without main.py or app.py: add a Procfile or set the service's start command.",
        )
      : `python -u ${start}`);
  const install: string[] = [];
  if (requirements?.split("\n").some((line) => /^\s*[^#\s]/.test(line)))
    install.push("-r", "requirements.txt");
  // Many projects keep only settings of tools there.
  if (/^[ \t]*\[(project|build-system|tool\.poetry)\]/m.test(project ?? "")) install.push(".");
  const bare = install.length === 0 ? ["--without-pip"] : [];
  const steps: BuildStep[] = [
    { run: ["python3", "-m", "venv", "--clear", ...bare, ".venv"], failure: "install_failed" },
  ];
  if (install.length > 0) {
    steps.push({
      run: [".venv/bin/python", "-m", "pip", "install", "--no-input", ...install],
      failure: "install_failed",
    });
  }
  const file = ["requirements.txt", "pyproject.toml", "main.py", "app.py"].find((one) => tree.exists(one))!;
  return {
    runtime: "python",
    because: `It is a Python app: it has a ${file}.`,
    steps,
    dependencies: install.includes(".") ? undefined : pythonDependencies(requirements),
    command,
    path: [".venv/bin"],
  };
}

function detectGo(tree: SourceTree, wanted: Wanted): BuildPlan | undefined {
  if (!tree.exists("go.mod")) return undefined;
  if (!wanted.hasTool("go"))
    refuse("toolchain_missing", "This is a Go app, and there is no go on this machine.");
  const run = ["go", "build", "-buildvcs=false", "-o", "../bin/app", "."];
  const steps: BuildStep[] = [{ run, failure: "compile_failed" }];
  return {
    runtime: "go",
    because: "It is a Go app: it has a go.mod.",
    steps,
    command: wanted.command ?? "../bin/app",
    path: ["../bin"],
  };
}

function detectStatic(tree: SourceTree, wanted: Wanted): BuildPlan | undefined {
  if (wanted.type !== "web" || wanted.command !== undefined || !tree.exists("index.html")) return undefined;
  const command = `node ../${STATIC_SERVER_FILE} .`;
  const because = "It is a static site: it has an index.html.";
  return { runtime: "static", because, steps: [], command, path: [], needsStaticServer: true };
}

function notDetected(type: ServiceType): string {
  const site = type === "web" ? ", index.html (static site)" : "";
  return `Nothing in the root of the source says how to run it. Looked for: Procfile, Dockerfile, package.json (Node.js), requirements.txt, pyproject.toml, main.py or app.py (Python), go.mod (Go)${site}. Pack the working directory itself, or add a Procfile with a line “${type}: <command>”.`;
}

/** For a shell. */
function quote(word: string): string {
  return /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

function refuse(code: BuildFailureCode, message: string): never {
  throw new BuildFailure("detect", code, message);
}
