import type { BuildStep, SourceTree } from "./detect.ts";

/** Installed dependencies that depend on nothing but some files of the source and the tools' versions. */
export type Dependencies = {
  kind: "node" | "python";
  /** What the install makes, in the app's folder. */
  folder: string;
  /** The files that decide what is installed; the first is the one users know. */
  files: string[];
  /** What has to run after another build's folder was taken over. */
  afterRestore: BuildStep[];
};

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
 * The `node_modules` of an app with a lock file. Undefined when the install may read or make other files: the
 * app's own scripts of the install, workspaces and other links, packages that are files of the source.
 */
export function nodeDependencies(tree: SourceTree): Dependencies | undefined {
  const lockFile = ["npm-shrinkwrap.json", "package-lock.json"].find((file) => tree.exists(file));
  const pkg = parse(tree.read("package.json"));
  const lock = lockFile === undefined ? undefined : parse(tree.read(lockFile));
  if (lockFile === undefined || !isObject(pkg) || !isObject(lock) || !isObject(lock.packages))
    return undefined;
  const { scripts } = pkg;
  const runsOwn = isObject(scripts) && INSTALL_SCRIPTS.some((name) => scripts[name] !== undefined);
  if (runsOwn || pkg.workspaces !== undefined || tree.exists("binding.gyp")) return undefined;
  const packages = Object.entries(lock.packages).filter(([path]) => path !== "");
  const isolated = packages.every(
    ([path, one]) =>
      path.startsWith("node_modules/") &&
      isObject(one) &&
      one.link !== true &&
      !String(one.resolved ?? "").startsWith("file:"),
  );
  if (!isolated) return undefined;
  // Such scripts may read the app's files, as generators of code do: they see those of this build.
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

/** The `.venv` of plain requirements; undefined when one is a path, a URL, an editable or another file. */
export function pythonDependencies(requirements: string | undefined): Dependencies | undefined {
  if (requirements === undefined) return undefined;
  const lines = requirements.split(/\r?\n/).map((line) => line.replace(/(^|\s)#.*$/s, "").trim());
  const plain = (line: string) =>
    line === "" ||
    /^--(hash|index-url|extra-index-url)\b/.test(line) ||
    /^[A-Za-z0-9][^/@:\\]*(\\|--hash.*)?$/s.test(line);
  const isFile = (line: string) => /\.(whl|zip|tgz|tar(\.\w+)?)\b/.test(line);
  if (!lines.every(plain) || lines.some(isFile)) return undefined;
  return { kind: "python", folder: ".venv", files: ["requirements.txt"], afterRestore: [] };
}

function parse(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
