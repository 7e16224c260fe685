import { describe, expect, test } from "vitest";
import type { BuildPlan, DetectionInput } from "./build-plan.ts";
import { detectRuntime } from "./detect.ts";
import { treeOf } from "./testing.ts";

function detect(files: Record<string, string | object>, input: Partial<DetectionInput> = {}): BuildPlan {
  return detectRuntime(treeOf(files), { type: "web", hasTool: () => true, ...input });
}

const stepsOf = (plan: BuildPlan) => plan.steps.map((step) => step.run.join(" "));
function codeOf(
  files: Record<string, string | object>,
  input: Partial<DetectionInput> = {},
): [string, string, string] {
  try {
    detect(files, input);
  } catch (error) {
    const { stage, code, message } = error as { stage: string; code: string; message: string };
    return [stage, code, message];
  }
  throw new Error("it was detected");
}

describe("detection", () => {
  test("node: installs only what there is to install, builds only where there is a build script", () => {
    const npm = "--no-audit --no-fund --no-progress";
    const start = { start: "node a.js" };
    expect(stepsOf(detect({ "package.json": { scripts: start } }))).toEqual([]);
    expect(stepsOf(detect({ "package.json": { scripts: start, devDependencies: { x: "1" } } }))).toEqual([]);
    const dependencies = { x: "1" };
    expect(stepsOf(detect({ "package.json": { scripts: start, dependencies } }))).toEqual([
      `npm install --omit=dev ${npm}`,
    ]);
    const locked = { "package.json": { scripts: start, dependencies }, "package-lock.json": "{}" };
    expect(stepsOf(detect(locked))).toEqual([`npm ci --omit=dev ${npm}`]);
    const builds = { "package.json": { scripts: { ...start, build: "tsc" }, devDependencies: { tsc: "1" } } };
    expect(stepsOf(detect(builds))).toEqual([`npm install --include=dev ${npm}`, "npm run build"]);
  });

  test("node: starts by the start script, else main, else server.js or index.js", () => {
    const command = (pkg: object, files = {}) => detect({ "package.json": pkg, ...files }).command;
    expect(command({ scripts: { start: "next start" } })).toBe("next start");
    expect(command({ scripts: { start: "node .", prestart: "node migrate.js" } })).toBe(
      "(node migrate.js) && node .",
    );
    expect(command({ main: "./lib/a b.js" }, { "lib/a b.js": "" })).toBe("node 'lib/a b.js'");
    expect(command({ main: "missing.js" }, { "index.js": "" })).toBe("node index.js");
    expect(command({}, { "index.js": "", "server.js": "" })).toBe("node server.js");
    expect(codeOf({ "package.json": {} }).slice(0, 2)).toEqual(["detect", "start_command_missing"]);
    expect(codeOf({ "package.json": "{ not json" }).slice(0, 2)).toEqual(["detect", "source_invalid"]);
    expect(codeOf({ "package.json": "[]" }).slice(0, 2)).toEqual(["detect", "source_invalid"]);
  });

  test("python: a virtual environment, pip only where there is something to install", () => {
    const bare = "python3 -m venv --clear --without-pip .venv";
    const full = "python3 -m venv --clear .venv";
    const pip = ".venv/bin/python -m pip install --no-input --progress-bar off";
    expect(stepsOf(detect({ "main.py": "" }))).toEqual([bare]);
    expect(stepsOf(detect({ "app.py": "", "requirements.txt": "\n# nothing yet\n" }))).toEqual([bare]);
    expect(stepsOf(detect({ "app.py": "", "requirements.txt": "flask\n" }))).toEqual([
      full,
      `${pip} -r requirements.txt`,
    ]);
    expect(stepsOf(detect({ "app.py": "", "pyproject.toml": "[tool.ruff]\n" }))).toEqual([bare]);
    expect(
      stepsOf(detect({ "app.py": "", "pyproject.toml": "[project]\nname = 'x'\n[build-system]\n" })),
    ).toEqual([full, `${pip} .`]);
    expect(detect({ "main.py": "", "app.py": "" })).toMatchObject({
      runtime: "python",
      command: "python -u main.py",
    });
    expect(codeOf({ "requirements.txt": "flask" })[1]).toBe("start_command_missing");
  });

  test("go: compiles the program in the root, else the one in cmd, and asks which where there are several", () => {
    const program = "// Serves the shop.\npackage main\n";
    const compiled = (files: Record<string, string>) => stepsOf(detect({ "go.mod": "", ...files })).at(-1);
    const build = "go build -buildvcs=false -o ../bin/app";
    expect(compiled({ "server.go": program, "cmd/tool/main.go": program })).toBe(`${build} .`);
    const one = {
      "shop.go": "package shop\n",
      "cmd/api/serve.go": program,
      "cmd/api/serve_test.go": program,
    };
    expect(compiled({ ...one, "cmd/internal/x.go": "package internal\n" })).toBe(`${build} ./cmd/api`);
    const two = { "go.mod": "", ...one, "cmd/worker/main.go": program };
    const [, code, message] = codeOf(two);
    expect(code).toBe("start_command_missing");
    expect(message).toContain("cmd/api, cmd/worker");
    expect(message).toContain("go build -o ../bin/app ./cmd/api");
    expect(stepsOf(detect(two, { buildCommand: "make" }))).toEqual(["sh -c make"]);
  });

  test("static: an index.html of a web service", () => {
    expect(detect({ "index.html": "" })).toMatchObject({ runtime: "static", site: "." });
    expect(codeOf({ "index.html": "" }, { type: "worker" })[1]).toBe("runtime_not_detected");
  });

  test("a Procfile's line “release” is named as one that does not run", () => {
    const because = (Procfile: string) => detect({ Procfile, "package.json": "{}" }).because;
    expect(because("release: npm run migrate\nweb: node .")).toContain("config.releaseCommand");
    expect(because("web: node .")).not.toContain("release");
  });

  test("a Procfile wins: by the line of the service's type, over a Dockerfile and a start script", () => {
    const files = {
      Procfile: "# mine\nweb: gunicorn app:app --bind :$PORT\nworker:   python work.py  \n",
      Dockerfile: "FROM x",
    };
    expect(detect(files)).toMatchObject({
      runtime: "procfile",
      command: "gunicorn app:app --bind :$PORT",
      steps: [],
    });
    expect(detect(files, { type: "worker" }).command).toBe("python work.py");
    const python = detect({ ...files, "requirements.txt": "gunicorn", "main.py": "" });
    expect(python).toMatchObject({ runtime: "python", command: "gunicorn app:app --bind :$PORT" });
    expect(python.steps).toHaveLength(2);
    const [stage, code, message] = codeOf({ Procfile: "web: x" }, { type: "worker" });
    expect([stage, code]).toEqual(["detect", "start_command_missing"]);
    expect(message).toContain("web");
  });

  test("a Dockerfile needs a cluster, also a named one, and a named one must be there", () => {
    const [stage, code, message] = codeOf({ Dockerfile: "FROM x", "package.json": {} });
    expect([stage, code]).toEqual(["detect", "dockerfile_needs_cluster"]);
    expect(message).toContain("cluster");
    expect(codeOf({ "docker/Web": "" }, { dockerfile: "docker/Web" })[1]).toBe("dockerfile_needs_cluster");
    expect(codeOf({ "package.json": {} }, { dockerfile: "docker/Web" })[1]).toBe("dockerfile_missing");
  });

  test("the service's own command replaces what would start it, and is enough by itself", () => {
    const command = "node other.js";
    expect(detect({ "package.json": { scripts: { start: "x" } } }, { command })).toMatchObject({
      runtime: "node",
      command,
    });
    expect(detect({ "package.json": {} }, { command }).command).toBe(command);
    expect(detect({ Procfile: "worker: x" }, { command }).command).toBe(command);
    expect(detect({ "run.sh": "" }, { command: "sh run.sh" })).toMatchObject({
      runtime: "command",
      command: "sh run.sh",
    });
  });

  test("a missing toolchain is said, not met as a failing command", () => {
    const hasTool = () => false;
    const needy: Record<string, string | object>[] = [
      { "main.py": "" },
      { "go.mod": "" },
      { "package.json": { dependencies: { x: "1" }, main: "a.js" } },
    ];
    for (const files of needy) {
      expect(codeOf(files, { hasTool }).slice(0, 2)).toEqual(["detect", "toolchain_missing"]);
    }
    expect(detect({ "package.json": { scripts: { start: "node ." } } }, { hasTool }).runtime).toBe("node");
  });

  test("nothing recognised says what was looked for", () => {
    const [stage, code, message] = codeOf({ "readme.txt": "" });
    expect([stage, code]).toEqual(["detect", "runtime_not_detected"]);
    expect(message).toMatch(/Procfile.*Dockerfile.*package\.json.*requirements\.txt.*go\.mod.*index\.html/s);
  });
});

describe("buildpacks", () => {
  const on = { containers: true as const, buildpacks: {} };
  const forced = { builder: "buildpacks" };

  test("config.builder leaves any source to them, before a Dockerfile and a language", () => {
    const files = { "package.json": { main: "a.js" }, "a.js": "", Dockerfile: "FROM scratch" };
    expect(detect(files, { ...on, ...forced })).toMatchObject({ runtime: "buildpacks", steps: [] });
    expect(detect(files, { ...on, builder: "auto" }).runtime).toBe("dockerfile");
    const ignored = { ...on, ...forced, buildCommand: "make", outputDirectory: "out" };
    expect(detect(files, ignored).because).toContain(
      "do not use config.buildCommand, config.outputDirectory.",
    );
  });

  test("asking for them is refused with what to do, on one machine and where the operator has none", () => {
    expect(codeOf({}, forced)).toEqual([
      "detect",
      "buildpacks_need_cluster",
      expect.stringContaining("Kubernetes"),
    ]);
    const off = codeOf({}, { ...forced, containers: true });
    expect(off).toEqual([
      "detect",
      "buildpacks_not_enabled",
      expect.stringContaining("builds.buildpacks.builder"),
    ]);
  });

  test("what nothing recognises says who could build it", () => {
    const files = { "index.php": "<?php" };
    expect(codeOf(files)).toEqual([
      "detect",
      "runtime_not_detected",
      expect.stringContaining("need a Berth on a cluster"),
    ]);
    const message = expect.stringContaining("the operator of this Berth can turn on");
    expect(codeOf(files, { containers: true })).toEqual(["detect", "runtime_not_detected", message]);
  });

  test("a start command alone does not make a language run that only they build", () => {
    const files = { Gemfile: "", Procfile: "web: bundle exec puma" };
    expect(detect(files, on).runtime).toBe("buildpacks");
    expect(detect(files, { containers: true }).runtime).toBe("procfile");
    expect(detect({ "pom.xml": "" }, { ...on, command: "java -jar a.jar" }).runtime).toBe("buildpacks");
    expect(detect({ "run.sh": "" }, { ...on, command: "sh run.sh" }).runtime).toBe("command");
  });
});
