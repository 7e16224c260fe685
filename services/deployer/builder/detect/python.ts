import {
  type BuildPlan,
  type BuildStep,
  commandStep,
  type Dependencies,
  type DetectionInput,
  failDetection,
  type SourceTree,
} from "./build-plan.ts";
import { TOOLS_FOLDER } from "./package-manager.ts";
import { findPythonStart } from "./python-start.ts";

const FILES = ["requirements.txt", "pyproject.toml", "Pipfile", "manage.py", "main.py", "app.py"];

/** Returns the plan of a source with one of `FILES`; undefined for any other. */
export function detectPython(tree: SourceTree, input: DetectionInput): BuildPlan | undefined {
  const file = FILES.find((one) => tree.exists(one));
  if (file === undefined) return undefined;
  if (!input.hasTool("python3"))
    failDetection("toolchain_missing", "This is a Python app, but python3 is not installed on this machine.");
  const requirements = tree.read("requirements.txt");
  const project = tree.read("pyproject.toml") ?? "";
  const { steps, packages } = planInstall(tree, requirements, project);
  const { installCommand, buildCommand } = input;
  const names = packageNames(requirements, `${project}\n${tree.read("Pipfile") ?? ""}`);
  return {
    runtime: "python",
    because: `Detected a Python app: it has a ${file}.`,
    steps: [
      ...(installCommand === undefined
        ? steps
        : [...environment(true), commandStep(installCommand, "install_failed")]),
      ...(buildCommand === undefined ? [] : [commandStep(buildCommand, "compile_failed")]),
    ],
    dependencies:
      installCommand === undefined && packages?.every((one) => one === "-r" || one === "requirements.txt")
        ? pythonDependencies(requirements)
        : undefined,
    command: input.command ?? startCommand(tree, names, input),
    path: [".venv/bin"],
  };
}

const installStep = (...run: string[]): BuildStep => ({ run, failure: "install_failed" });
const PIP = [".venv/bin/python", "-m", "pip", "install", "--no-input", "--progress-bar", "off"];

function environment(withPip: boolean): BuildStep[] {
  return [installStep("python3", "-m", "venv", "--clear", ...(withPip ? [] : ["--without-pip"]), ".venv")];
}

/** Returns the steps, and what pip installs, if pip does. */
function planInstall(
  tree: SourceTree,
  requirements: string | undefined,
  project: string,
): { steps: BuildStep[]; packages?: string[] } {
  if (tree.exists("uv.lock"))
    return {
      steps: [
        ...environment(true),
        installStep(...PIP, "uv"),
        // Inexact: what is not in the lock file stays, and so do pip and uv itself.
        installStep(".venv/bin/uv", "sync", "--frozen", "--no-dev", "--inexact"),
      ],
    };
  const packages: string[] = [];
  if (requirements?.split("\n").some((line) => /^\s*[^#\s]/.test(line)))
    packages.push("-r", "requirements.txt");
  const isApp = /^[ \t]*package-mode\s*=\s*false\b/m.test(project);
  // Many projects keep nothing but the settings of tools in their pyproject.toml.
  const isPackage = !isApp && /^[ \t]*\[(build-system|tool\.poetry)\]/m.test(project);
  if (isPackage) packages.push(".");
  // An app that is no package: what it depends on is installed, and its folders are not taken for packages.
  if (packages.length === 0) packages.push(...projectDependencies(project));
  if (packages.length === 0 && isApp && /^[ \t]*\[tool\.poetry\.dependencies\]/m.test(project))
    return { steps: poetryInstall };
  if (packages.length === 0 && tree.exists("Pipfile")) return { steps: pipenvInstall };
  if (packages.length === 0) return { steps: environment(false), packages };
  const install = installStep(...PIP, ...packages);
  return {
    steps: [...environment(true), isPackage ? { ...install, message: NO_PACKAGE } : install],
    packages,
  };
}

const NO_PACKAGE =
  "The packages could not be installed, or the project itself as one of them; the build log says why. If it is an app and no package, remove [build-system] from its pyproject.toml, or, with Poetry, set package-mode = false.";

/** Of Poetry, the part that reads dependencies in [tool.poetry]. It must not be among the packages of the app. */
const POETRY = `${TOOLS_FOLDER}/poetry`;
const LISTED = `${TOOLS_FOLDER}/requirements.txt`;
// On one line, as an instruction of a Dockerfile has to be.
const LIST =
  "from poetry.core.factory import Factory; print(*(one.to_pep_508() for one in Factory().create_poetry().package.requires if not one.is_optional()), sep=chr(10))";
const poetryInstall = [
  ...environment(true),
  installStep(...PIP, "--target", POETRY, "poetry-core"),
  commandStep(
    `PYTHONPATH=${POETRY} .venv/bin/python -c '${LIST}' > ${LISTED} && ${PIP.join(" ")} -r ${LISTED}`,
    "install_failed",
  ),
];

/** Pipenv installs into the environment that is active, by the lock file if there is one. */
const PIPENV = `${TOOLS_FOLDER}/pipenv`;
const pipenvInstall = [
  ...environment(true),
  installStep(...PIP, "--target", PIPENV, "pipenv"),
  commandStep(
    `PIPENV_VERBOSITY=-1 VIRTUAL_ENV=.venv PYTHONPATH=${PIPENV} .venv/bin/python -m pipenv install --deploy`,
    "install_failed",
  ),
];

/** Returns `dependencies` of a pyproject.toml's `[project]`. */
function projectDependencies(project: string): string[] {
  const lines = project.split("\n");
  const begin = lines.findIndex((line) => /^\s*\[project\]/.test(line));
  const length = lines.slice(begin + 1).findIndex((line) => /^\s*\[[\w."-]+\]/.test(line));
  const section = begin < 0 ? [] : lines.slice(begin + 1, length < 0 ? undefined : begin + 1 + length);
  const first = section.findIndex((line) => /^\s*dependencies\s*=/.test(line));
  return first < 0 ? [] : readTexts(section.slice(first).join("\n"));
}

/** Returns the texts of the first list in some TOML. */
function readTexts(toml: string): string[] {
  const texts: string[] = [];
  for (let at = toml.indexOf("[") + 1; at > 0 && at < toml.length && toml[at] !== "]"; at++) {
    const char = toml[at]!;
    if (char === "#") at = endOf(toml, "\n", at);
    if (char !== '"' && char !== "'") continue;
    const end = endOf(toml, char, at + 1);
    texts.push(toml.slice(at + 1, end));
    at = end;
  }
  return texts;
}

function endOf(text: string, mark: string, from: number): number {
  const found = text.indexOf(mark, from);
  return found < 0 ? text.length : found;
}

/** Returns the packages that the source asks for, lower-case, with their extras: `fastapi[standard]`. */
function packageNames(requirements: string | undefined, project: string): Set<string> {
  const lines = [...(requirements?.split("\n") ?? []), ...projectDependencies(project)];
  const poetry = project.split("\n").map((line) => /^([A-Za-z0-9_.-]+)\s*=\s*["{^~]/.exec(line)?.[1] ?? "");
  const names = [...lines, ...poetry].map((line) => {
    const [, name = "", extras = ""] = /^\s*([A-Za-z0-9_.-]+)\s*(\[[\w,\s-]*\])?/.exec(line) ?? [];
    return name.toLowerCase().replaceAll("_", "-") + extras.replace(/\s/g, "");
  });
  return new Set(names);
}

function startCommand(tree: SourceTree, names: Set<string>, { type }: DetectionInput): string {
  const found = type === "web" ? findPythonStart(tree, names) : undefined;
  if (found !== undefined)
    return "command" in found ? found.command : failDetection("start_command_missing", found.problem);
  const start = ["main.py", "app.py"].find((one) => tree.exists(one));
  if (start !== undefined) return `python -u ${start}`;
  return failDetection(
    "start_command_missing",
    "This is a Python app without main.py or app.py. Add a Procfile or set the service's start command.",
  );
}

/** Returns the `.venv` of plain requirements; undefined when one is a path, a URL, an editable or another file. */
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
