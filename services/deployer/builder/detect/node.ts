import { isObject } from "../../../kit/process/config.ts";
import { shellQuote } from "../shell-quote.ts";
import {
  type BuildPlan,
  type BuildStep,
  type Dependencies,
  type DetectionInput,
  failDetection,
  type SourceTree,
} from "./build-plan.ts";

type PackageJson = {
  main?: unknown;
  scripts?: Record<string, unknown>;
  dependencies?: object;
  devDependencies?: object;
  optionalDependencies?: object;
  workspaces?: unknown;
};

/** Returns the plan of a source with a package.json; undefined for any other. */
export function detectNode(tree: SourceTree, input: DetectionInput): BuildPlan | undefined {
  const text = tree.read("package.json");
  if (text === undefined) return undefined;
  const pkg = parsePackage(text);
  const builds = scriptOf(pkg, "build") !== undefined;
  const installs = needsInstall(pkg, builds);
  if ((installs || builds) && !input.hasTool("npm"))
    failDetection("toolchain_missing", "This is a Node.js app, but npm is not installed on this machine.");
  const steps: BuildStep[] = [];
  if (installs) {
    const locked = tree.exists("package-lock.json") || tree.exists("npm-shrinkwrap.json");
    const omit = builds ? ["--include=dev"] : ["--omit=dev"];
    const run = ["npm", locked ? "ci" : "install", ...omit, "--no-audit", "--no-fund", "--no-progress"];
    steps.push({ run, failure: "install_failed" });
  }
  if (builds) steps.push({ run: ["npm", "run", "build"], failure: "compile_failed" });
  return {
    runtime: "node",
    because: `Detected a Node.js app: it has a package.json${installs ? "" : " without dependencies"}.`,
    steps,
    dependencies: installs ? nodeDependencies(tree) : undefined,
    command: input.command ?? startCommand(tree, pkg),
    path: ["node_modules/.bin"],
  };
}

function parsePackage(text: string): PackageJson {
  const value = parseJson(text);
  return isObject(value) ? value : failDetection("source_invalid", "The package.json is not valid JSON.");
}

function scriptOf({ scripts }: PackageJson, name: string): string | undefined {
  const script = scripts?.[name];
  return typeof script === "string" ? script : undefined;
}

function needsInstall(pkg: PackageJson, builds: boolean): boolean {
  const lists = [pkg.dependencies, pkg.optionalDependencies, builds ? pkg.devDependencies : undefined];
  return lists.some((list) => list && Object.keys(list).length > 0) || pkg.workspaces !== undefined;
}

function startCommand(tree: SourceTree, pkg: PackageJson): string {
  const [start, prestart] = [scriptOf(pkg, "start"), scriptOf(pkg, "prestart")];
  if (start !== undefined) return prestart === undefined ? start : `(${prestart}) && ${start}`;
  const main = typeof pkg.main === "string" ? pkg.main.replace(/^\.\//, "") : undefined;
  const file = [main, "server.js", "index.js"].find((one) => one !== undefined && tree.exists(one));
  if (file !== undefined) return `node ${shellQuote(file)}`;
  return failDetection(
    "start_command_missing",
    "The package.json has no “start” script, and there is no server.js or index.js. Add one, or set the service's start command.",
  );
}

const INSTALL_SCRIPTS = [
  "preinstall",
  "install",
  "postinstall",
  "prepublish",
  "preprepare",
  "prepare",
  "postprepare",
];

/**
 * Returns the `node_modules` of an app with a lock file. Undefined when the install may read or write other files of
 * the source: install scripts of the app, workspaces and other links, packages that are files in the source.
 */
export function nodeDependencies(tree: SourceTree): Dependencies | undefined {
  const lockFile = ["npm-shrinkwrap.json", "package-lock.json"].find((file) => tree.exists(file));
  const pkg = parseJson(tree.read("package.json"));
  const lock = lockFile === undefined ? undefined : parseJson(tree.read(lockFile));
  if (lockFile === undefined || !isObject(pkg) || !isObject(lock) || !isObject(lock.packages))
    return undefined;
  const { scripts } = pkg;
  const hasInstallScript = isObject(scripts) && INSTALL_SCRIPTS.some((name) => scripts[name] !== undefined);
  if (hasInstallScript || pkg.workspaces !== undefined || tree.exists("binding.gyp")) return undefined;
  const packages = Object.entries(lock.packages).filter(([path]) => path !== "");
  const isolated = packages.every(
    ([path, one]) =>
      path.startsWith("node_modules/") &&
      isObject(one) &&
      one.link !== true &&
      !String(one.resolved ?? "").startsWith("file:"),
  );
  if (!isolated) return undefined;
  // Install scripts of packages may read the app's files, as code generators do: they have to see this build's.
  const scripted = packages.some(
    ([, one]) => (one as { hasInstallScript?: unknown }).hasInstallScript === true,
  );
  const rebuild: BuildStep = { run: ["npm", "rebuild"], failure: "install_failed" };
  return {
    kind: "node",
    folder: "node_modules",
    files: [lockFile, "package.json", ".npmrc"],
    afterRestore: scripted ? [rebuild] : [],
  };
}

function parseJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}
