import type { BuildStep, SourceTree } from "./build-plan.ts";
import type { PackageJson } from "./package-json.ts";

/** What installs a Node.js app's packages and runs its scripts. */
export type PackageManager = {
  name: "npm" | "pnpm" | "yarn" | "bun";
  /** Brings the manager itself, where Node.js does not include it. */
  setup: BuildStep[];
  /** Installs what the lock file names; with `dev`, also what only a build needs. */
  install(dev: boolean): BuildStep;
  /** Runs a script of the package in a folder; "" is the root. */
  run(script: string, folder: string): string[];
};

/** Where tools are that a build brings. */
export const TOOLS_FOLDER = ".berth-tools";

/** The folder in which `installTool` places programs, for PATH. */
export const TOOLS_PATH = `${TOOLS_FOLDER}/node_modules/.bin`;

/** Returns the step that brings a program which npm offers. Its own install scripts place it for the machine. */
export function installTool(spec: string): BuildStep {
  const options = ["--no-save", "--ignore-scripts=false", "--no-audit", "--no-fund", "--no-progress"];
  return { run: ["npm", "install", "--prefix", TOOLS_FOLDER, ...options, spec], failure: "install_failed" };
}

/** Returns the manager that `packageManager` names, else the one whose lock file or workspace the source has, else npm. */
export function findPackageManager(tree: SourceTree, pkg: PackageJson): PackageManager {
  const named = /^(npm|pnpm|yarn|bun)@(\d+(?:\.\d+)*)/.exec(String(pkg.packageManager ?? ""));
  const [, name, version] = named ?? [];
  if (name === "pnpm" || (name === undefined && tree.exists("pnpm-lock.yaml"))) return pnpm(tree, version);
  if (name === "bun" || (name === undefined && (tree.exists("bun.lock") || tree.exists("bun.lockb"))))
    return bun(tree, version);
  if (name === "yarn" || (name === undefined && tree.exists("yarn.lock"))) return yarn(tree, version);
  // Only pnpm knows which packages such a workspace has.
  if (name === undefined && !isLocked(tree) && tree.exists("pnpm-workspace.yaml")) return pnpm(tree, version);
  return npm(tree);
}

const isLocked = (tree: SourceTree) => tree.exists("package-lock.json") || tree.exists("npm-shrinkwrap.json");

const QUIET = ["--no-audit", "--no-fund", "--no-progress"];
const installStep = (...run: string[]): BuildStep => ({ run, failure: "install_failed" });

function npm(tree: SourceTree): PackageManager {
  const locked = isLocked(tree);
  return {
    name: "npm",
    setup: [],
    install: (dev) =>
      installStep("npm", locked ? "ci" : "install", dev ? "--include=dev" : "--omit=dev", ...QUIET),
    run: (script, folder) => ["npm", ...(folder ? ["--prefix", folder] : []), "run", script],
  };
}

/** The newest pnpm that reads each version of the lock file. */
const PNPM_OF_LOCK: Record<string, string> = { "5": "7", "6": "8", "9": "10" };

function pnpm(tree: SourceTree, version: string | undefined): PackageManager {
  const lock = tree.read("pnpm-lock.yaml");
  const [, lockVersion = ""] = /^lockfileVersion:\s*['"]?(\d+)/m.exec(lock ?? "") ?? [];
  const frozen = lock === undefined ? "--no-frozen-lockfile" : "--frozen-lockfile";
  return {
    name: "pnpm",
    setup: [installTool(`pnpm@${version ?? PNPM_OF_LOCK[lockVersion] ?? "latest"}`)],
    install: (dev) => installStep("pnpm", "install", frozen, ...(dev ? ["--prod=false"] : ["--prod"])),
    run: (script, folder) => ["pnpm", ...(folder ? ["--dir", folder] : []), "run", script],
  };
}

function yarn(tree: SourceTree, version: string | undefined): PackageManager {
  const lock = tree.read("yarn.lock");
  const classic = version === undefined ? !/^__metadata:/m.test(lock ?? "") : version.startsWith("1.");
  const run: PackageManager["run"] = (script, folder) => [
    "yarn",
    ...(folder ? ["--cwd", folder] : []),
    "run",
    script,
  ];
  if (classic)
    return {
      name: "yarn",
      setup: [installTool(`yarn@${version ?? "1"}`)],
      install: (dev) =>
        installStep(
          "yarn",
          "install",
          "--non-interactive",
          `--production=${!dev}`,
          ...(lock === undefined ? [] : ["--frozen-lockfile"]),
        ),
      run,
    };
  const spec = version === undefined ? "@yarnpkg/cli-dist@4" : `@yarnpkg/cli-dist@${version}`;
  // Programs that are started by Node.js itself need a node_modules. Scripts too: Yarn finds no other kind of install.
  const linked = ["env", "YARN_NODE_LINKER=node-modules"];
  return {
    name: "yarn",
    // Without a lock file of its own, the project is taken for a part of one in a folder above.
    setup: [installTool(spec), ...(lock === undefined ? [installStep("touch", "yarn.lock")] : [])],
    install: () => installStep(...linked, "yarn", "install", ...(lock === undefined ? [] : ["--immutable"])),
    run: (script, folder) => [...linked, ...run(script, folder)],
  };
}

function bun(tree: SourceTree, version: string | undefined): PackageManager {
  const locked = tree.exists("bun.lock") || tree.exists("bun.lockb");
  return {
    name: "bun",
    setup: [installTool(`bun@${version ?? "1"}`)],
    install: (dev) =>
      installStep(
        "bun",
        "install",
        ...(locked ? ["--frozen-lockfile"] : []),
        ...(dev ? [] : ["--production"]),
      ),
    run: (script, folder) => ["bun", ...(folder ? ["--cwd", folder] : []), "run", script],
  };
}
