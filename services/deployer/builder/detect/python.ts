import {
  type BuildPlan,
  type BuildStep,
  type Dependencies,
  type DetectionInput,
  failDetection,
  type SourceTree,
} from "./build-plan.ts";

/** Returns the plan of a source with requirements.txt, pyproject.toml, main.py or app.py; undefined for any other. */
export function detectPython(tree: SourceTree, input: DetectionInput): BuildPlan | undefined {
  const file = ["requirements.txt", "pyproject.toml", "main.py", "app.py"].find((one) => tree.exists(one));
  if (file === undefined) return undefined;
  if (!input.hasTool("python3"))
    failDetection("toolchain_missing", "This is a Python app, but python3 is not installed on this machine.");
  const requirements = tree.read("requirements.txt");
  const packages: string[] = [];
  if (requirements?.split("\n").some((line) => /^\s*[^#\s]/.test(line)))
    packages.push("-r", "requirements.txt");
  // Many projects keep nothing but the settings of tools in their pyproject.toml.
  if (/^[ \t]*\[(project|build-system|tool\.poetry)\]/m.test(tree.read("pyproject.toml") ?? ""))
    packages.push(".");
  return {
    runtime: "python",
    because: `Detected a Python app: it has a ${file}.`,
    steps: installSteps(packages),
    dependencies: packages.includes(".") ? undefined : pythonDependencies(requirements),
    command: input.command ?? startCommand(tree),
    path: [".venv/bin"],
  };
}

function installSteps(packages: string[]): BuildStep[] {
  const bare = packages.length === 0 ? ["--without-pip"] : [];
  const commands = [["python3", "-m", "venv", "--clear", ...bare, ".venv"]];
  if (packages.length > 0)
    commands.push([".venv/bin/python", "-m", "pip", "install", "--no-input", ...packages]);
  return commands.map((run) => ({ run, failure: "install_failed" }));
}

function startCommand(tree: SourceTree): string {
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
