import { isObject } from "../../../kit/process/config.ts";
import type { BuildStep, Dependencies, SourceTree } from "./build-plan.ts";
import { parseJson } from "./package-json.ts";

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
