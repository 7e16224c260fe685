import { isObject } from "../../../kit/process/config.ts";
import { withExec } from "../../shared/exec-command.ts";
import { shellQuote } from "../../shared/shell-quote.ts";
import {
  type BuildPlan,
  type BuildStep,
  commandStep,
  type DetectionInput,
  failDetection,
  type SourceTree,
  serveSite,
} from "./build-plan.ts";
import { nodeDependencies } from "./node-dependencies.ts";
import { findStart } from "./node-start.ts";
import { dependsOn, type PackageJson, readPackage, scriptOf } from "./package-json.ts";
import { findPackageManager, type PackageManager, TOOLS_PATH } from "./package-manager.ts";
import { buildOrder, findWorkspace, type Member } from "./workspaces.ts";

/**
 * Returns the plan of a source with a package.json; undefined for any other. `rootDirectory` names the package to run
 * of a workspace, which is installed as a whole.
 */
export function detectNode(tree: SourceTree, input: DetectionInput): BuildPlan | undefined {
  const root = readPackage(tree);
  if (root === undefined) return undefined;
  const folder = input.rootDirectory ?? "";
  const pkg = readPackage(tree, folder) ?? root;
  const members = findWorkspace(tree);
  const manager = findPackageManager(tree, root);
  const buildSteps = planBuildSteps(pkg, input, manager, members, hasTurbo(tree, root));
  const builds = buildSteps.length > 0;
  const plan = (dev: boolean) => planInstall(root, pkg, input, manager, dev, members !== undefined);
  if ((builds || plan(builds).length > 0) && !input.hasTool("npm"))
    failDetection("toolchain_missing", "This is a Node.js app, but npm is not installed on this machine.");
  const started = planStart(tree, pkg, input, builds, members);
  const install = plan(builds || startsByDevDependency(pkg, started.command));
  const steps = [...install, ...buildSteps, ...started.checks];
  const bun = manager.name === "bun";
  const runtime = started.site !== undefined ? "static" : bun ? "bun" : "node";
  return {
    runtime,
    because: explain(manager, folder, started, install.length > 0),
    steps,
    dependencies:
      manager.name === "npm" && install.length > 0 && input.installCommand === undefined
        ? nodeDependencies(tree)
        : undefined,
    command: started.command,
    ...(started.site !== undefined && { site: started.site }),
    path: [
      ...(folder ? [`${folder}/node_modules/.bin`] : []),
      "node_modules/.bin",
      ...(manager.setup.length > 0 ? [TOOLS_PATH] : []),
    ],
  };
}

/** Whether `folder` is a package of the workspace whose root the tree is, so that the whole source is needed to build it. */
export function isWorkspaceMember(tree: SourceTree, folder: string): boolean {
  return findWorkspace(tree)?.some((member) => member.folder === folder) ?? false;
}

function planInstall(
  root: PackageJson,
  pkg: PackageJson,
  { installCommand }: DetectionInput,
  manager: PackageManager,
  dev: boolean,
  isWorkspace: boolean,
): BuildStep[] {
  if (installCommand !== undefined) return [...manager.setup, commandStep(installCommand, "install_failed")];
  const lists = [root, pkg].flatMap((one) => [
    one.dependencies,
    one.optionalDependencies,
    dev ? one.devDependencies : undefined,
  ]);
  const installs = isWorkspace || lists.some((list) => list && Object.keys(list).length > 0);
  // Without anything to install, the manager may still run a script.
  return installs ? [...manager.setup, manager.install(dev)] : manager.setup;
}

function hasTurbo(tree: SourceTree, root: PackageJson): boolean {
  return tree.exists("turbo.json") && dependsOn(root, "turbo");
}

function planBuildSteps(
  pkg: PackageJson,
  { rootDirectory = "", buildCommand }: DetectionInput,
  manager: PackageManager,
  members: Member[] | undefined,
  turbo: boolean,
): BuildStep[] {
  if (buildCommand !== undefined) {
    const inFolder = rootDirectory ? `cd ${shellQuote(rootDirectory)} && ` : "";
    return [commandStep(`${inFolder}${buildCommand}`, "compile_failed")];
  }
  const step = (run: string[]): BuildStep => ({ run, failure: "compile_failed" });
  if (rootDirectory === "" || members === undefined)
    return scriptOf(pkg, "build") === undefined ? [] : [step(manager.run("build", ""))];
  const order = buildOrder(members, rootDirectory);
  if (turbo && order.length > 0 && typeof pkg.name === "string")
    return [step(["turbo", "run", "build", `--filter=${pkg.name}`])];
  return order.map((folder) => step(manager.run("build", folder)));
}

type Started = {
  command: string;
  site?: string;
  kind?: string;
  /** Steps that make sure of what the build must have made. */
  checks: BuildStep[];
};

function planStart(
  tree: SourceTree,
  pkg: PackageJson,
  input: DetectionInput,
  builds: boolean,
  members: Member[] | undefined,
): Started {
  const { rootDirectory: folder = "", command, type, outputDirectory } = input;
  const inFolder = (text: string) => (folder ? `cd ${shellQuote(folder)} && ${withExec(text)}` : text);
  if (command !== undefined) return { command: inFolder(command), checks: [] };
  const found = findStart(inside(tree, folder), pkg, { type, builds, outputDirectory });
  if (found && "problem" in found) return failDetection("start_command_missing", found.problem);
  if (found === undefined) return failDetection("start_command_missing", startMissing(tree, input, members));
  if ("command" in found) return { command: inFolder(found.command), checks: [] };
  const { check, ...served } = serveSite(folder ? `${folder}/${found.site}` : found.site, found.fallback);
  return { ...served, kind: found.kind, checks: [check] };
}

/** Returns the tree below a folder. */
function inside(tree: SourceTree, folder: string): SourceTree {
  if (folder === "") return tree;
  const at = (path: string) => (path === "" ? folder : `${folder}/${path}`);
  return {
    exists: (path) => tree.exists(at(path)),
    read: (path) => tree.read(at(path)),
    folders: (path) => tree.folders(at(path)),
    files: (path) => tree.files(at(path)),
  };
}

function startMissing(
  tree: SourceTree,
  { rootDirectory: folder = "", type }: DetectionInput,
  members: Member[] | undefined,
): string {
  const of = folder ? `The package.json in ${folder}` : "The package.json";
  const builds = (pkg: PackageJson) => scriptOf(pkg, "build") !== undefined;
  // Not by the usual files: libraries have them too.
  const startable = (members ?? []).filter(({ folder, pkg }) => {
    const start = findStart(inside(tree, folder), pkg, { type, builds: builds(pkg) });
    return scriptOf(pkg, "start") !== undefined || (start !== undefined && "site" in start);
  });
  if (folder === "" && startable.length > 0) {
    const names = startable.slice(0, 10).map((member) => member.folder);
    return `${of} has no “start” script. Packages of this workspace that can be deployed: ${names.join(", ")}. Set the service's config.rootDirectory to the one that it runs.`;
  }
  const page =
    type === "web" && inside(tree, folder).exists("index.html")
      ? " To serve its index.html as it is, set the service's config.outputDirectory to “.”."
      : "";
  return `${of} has no “start” script, and there is no server.js or index.js. Add one, or set the service's start command.${page}`;
}

/** Whether a start command runs a program that only the development dependencies bring. */
function startsByDevDependency(pkg: PackageJson, command: string): boolean {
  const words = new Set(command.split(/[\s;&|()]+/));
  const names = isObject(pkg.devDependencies) ? Object.keys(pkg.devDependencies) : [];
  return names.some((name) => words.has(name) || words.has(`${name}/register`));
}

function explain(manager: PackageManager, folder: string, started: Started, installs: boolean): string {
  const app = started.site === undefined ? "Node.js app" : `${started.kind} site`;
  const by = manager.name === "npm" ? "" : ` with ${manager.name}`;
  const where = folder ? `${folder} is a package of a workspace` : "it has a package.json";
  return `Detected ${/^[AE]/.test(app) ? "an" : "a"} ${app}${by}: ${where}${installs ? "" : " without dependencies"}.`;
}
