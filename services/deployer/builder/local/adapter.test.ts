import { fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { builderContract } from "../../../../test/contracts/ports/builder/contract.ts";
import { type BuilderHarness, never, requestOf } from "../../../../test/contracts/ports/builder/harness.ts";
import { isRunning, releaseOf, statusOf } from "../../../../test/contracts/ports/runtime/harness.ts";
import { type ArchiveEntry, exampleApp } from "../../../../test/support/archives.ts";
import { startGitServer } from "../../../../test/support/servers/git-server.ts";
import { wallsHere } from "../../../kit/testing/walls.ts";
import { artifactFolders } from "../../runtime/local/artifact.ts";
import { startRouter } from "../../runtime/local/routing/router.ts";
import { createLocalRuntime } from "../../runtime/local/runtime.ts";
import { findProcessesOf, startedOf } from "../../shared/process-tree.ts";
import { createDiskStore } from "../../store/disk/adapter.ts";
import { createLocalBuilder } from "./adapter.ts";

const log = { info() {}, warn() {}, error: console.error };
/** Go's first build on a machine compiles its whole library, which takes minutes on a busy one. */
const GO_MS = 600_000;

async function openLocal(environment: NodeJS.ProcessEnv = process.env) {
  const root = mkdtempSync(join(tmpdir(), "berth-builder-"));
  const folder = join(root, "artifacts");
  const store = createDiskStore({ folder: join(root, "store"), baseUrl: "", secrets: ["x"], log });
  await Promise.all([mkdir(folder), mkdir(join(root, "store"), { recursive: true })]);
  const walls = await wallsHere?.([join(root, "store"), folder]);
  const builder = createLocalBuilder({ folder, store, environment, walls });
  const git = await startGitServer();
  const ask: BuilderHarness["ask"] = async (result, path, env) => {
    const router = await startRouter({ port: 0, log });
    const places = { folder: join(root, "runtime"), artifactsFolder: folder };
    const runtime = createLocalRuntime({ ...places, secret: "a secret of the tests", router, log });
    await runtime.start();
    try {
      const release = releaseOf(result.artifact, "", { command: undefined, env });
      await runtime.apply(release);
      const { url } = await statusOf(runtime, release.serviceId, isRunning);
      const headers = { host: new URL(url!).host };
      const sent = httpRequest({ host: "127.0.0.1", port: router.port, path, headers, agent: false }).end();
      const [response] = await once(sent, "response");
      const body = Buffer.concat(await response.toArray()).toString();
      await runtime.remove(release.serviceId);
      return { status: response.statusCode, body };
    } finally {
      await runtime.stopAll();
      await router.close();
    }
  };
  return {
    root,
    folder,
    store,
    builder,
    git,
    ask,
    async remains(buildId: string) {
      const place = artifactFolders(folder, buildId).folder;
      const processes = findProcessesOf(place).map(({ pid }) => `process ${pid}`);
      return [...processes, ...(existsSync(place) ? [place] : [])];
    },
    async close() {
      await git.close();
      await rm(root, { recursive: true });
    },
  };
}

builderContract("local", () => openLocal());

describe("the local builder", () => {
  let local: Awaited<ReturnType<typeof openLocal>>;
  beforeAll(async () => {
    local = await openLocal({
      ...process.env,
      DATABASE_URL: "postgres://of-berth",
      npm_config_ignore_scripts: "true",
      npm_config_registry: "http://registry.test/",
      HTTPS_PROXY: "http://proxy.test:3128",
    });
  });
  afterAll(() => local.close());
  const build = async (entries: ArchiveEntry[], changes = {}) => {
    const request = await requestOf(local.store, entries, changes);
    return { request, result: await local.builder.build(request, never) };
  };
  const file = (name: string, content: unknown): ArchiveEntry => ({
    name,
    content: typeof content === "string" ? content : JSON.stringify(content),
  });

  test("a build sees the machine's registry settings, and nothing else of Berth's environment", async () => {
    const script = `console.log("env " + JSON.stringify(process.env))`;
    const pkg = { scripts: { build: "node print.js", start: "node ." } };
    const { request } = await build([file("package.json", pkg), file("print.js", script)]);
    const env = JSON.parse(request.lines.find((line) => line.startsWith("env "))!.slice(4));
    expect(env).toMatchObject({
      HOME: process.env.HOME,
      npm_config_registry: "http://registry.test/",
      HTTPS_PROXY: "http://proxy.test:3128",
    });
    expect(env).not.toHaveProperty("DATABASE_URL");
    expect(env).not.toHaveProperty("npm_config_ignore_scripts");
  });

  test("dependencies of a Node.js app are installed, with npm ci when there is a lock file", async () => {
    const dependency = [
      file("greet/package.json", { name: "greet", version: "1.0.0" }),
      file("greet/index.js", "module.exports = 'hi'"),
    ];
    const pkg = { scripts: { start: "node main.js" }, dependencies: { greet: "file:./greet" } };
    const main = file(
      "main.js",
      `require("node:http").createServer((_, res) => res.end(require("greet"))).listen(process.env.PORT)`,
    );
    const { request, result } = await build([file("package.json", pkg), main, ...dependency]);
    expect(request.lines.some((line) => line.startsWith("$ npm install"))).toBe(true);
    expect((await local.ask(result, "/", {})).body).toBe("hi");
    const lock = readFileSync(
      join(artifactFolders(local.folder, request.buildId).app, "package-lock.json"),
      "utf8",
    );
    const locked = await build([
      file("package.json", pkg),
      main,
      ...dependency,
      file("package-lock.json", lock),
    ]);
    expect(locked.request.lines.some((line) => line.startsWith("$ npm ci"))).toBe(true);
    expect((await local.ask(locked.result, "/", {})).body).toBe("hi");
  });

  test("requirements of a Python app are installed into an environment of its own", async (context) => {
    // A wheel is a zip file; made here, so that no registry is asked.
    const making = `import sys, zipfile
z = zipfile.ZipFile(sys.argv[1], "w")
z.writestr("greet.py", "hi = 'hi from a wheel'")
z.writestr("greet-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: greet\\nVersion: 1.0\\n")
z.writestr("greet-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
z.writestr("greet-1.0.dist-info/RECORD", "greet.py,,\\ngreet-1.0.dist-info/METADATA,,\\ngreet-1.0.dist-info/WHEEL,,\\ngreet-1.0.dist-info/RECORD,,\\n")
z.close()`;
    const wheel = "greet-1.0-py3-none-any.whl";
    const made = spawnSync("python3", ["-c", making, join(local.root, wheel)], { encoding: "utf8" });
    if (made.error) context.skip("there is no python3 on this machine");
    expect(made.stderr).toBe("");
    const main = `import os, greet
from http.server import BaseHTTPRequestHandler, HTTPServer
class Greeter(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(greet.hi.encode())
HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Greeter).serve_forever()`;
    const content = readFileSync(join(local.root, wheel));
    const entries = [file("main.py", main), file("requirements.txt", `./${wheel}`), { name: wheel, content }];
    const request = await requestOf(local.store, entries);
    const built = await local.builder.build(request, never).catch((error) => error);
    if (request.lines.some((line) => line.includes("ensurepip is not")))
      context.skip("this python3 has no venv");
    expect(built).toMatchObject({ runtime: "python", command: "python -u main.py" });
    expect((await local.ask(built, "/", {})).body).toBe("hi from a wheel");
  });

  test("an app without a package.json is not taken for a part of Berth's own", async () => {
    const server = `const http = require("node:http"); http.createServer((_, res) => res.end("plain")).listen(process.env.PORT)`;
    const { result } = await build([file("Procfile", "web: node app.js"), file("app.js", server)]);
    expect(result).toMatchObject({ runtime: "procfile", command: "node app.js" });
    expect((await local.ask(result, "/", {})).body).toBe("plain");
  });

  test("a Go app is compiled where there is a toolchain", { timeout: 2 * GO_MS }, async (context) => {
    const program = `package main
import ("net/http"; "os")
func main() { http.ListenAndServe("127.0.0.1:" + os.Getenv("PORT"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("from go")) })) }`;
    const sources = [file("go.mod", "module app\n\ngo 1.20\n"), file("main.go", program)];
    const request = await requestOf(local.store, sources, { timeoutMs: GO_MS });
    const built = await local.builder.build(request, never).catch((error) => error);
    if (built.code === "toolchain_missing") context.skip("there is no go on this machine");
    expect(built).toHaveProperty("artifact");
    expect((await local.ask(built, "/", {})).body).toBe("from go");
  });

  test("a lock file that is older than the package.json is named as what has to change", async () => {
    const lock = { name: "app", lockfileVersion: 3, packages: { "": { name: "app" } } };
    const request = await requestOf(local.store, [
      file("package.json", { name: "app", scripts: { start: "node ." }, dependencies: { lib: "file:lib" } }),
      file("lib/package.json", { name: "lib", version: "1.0.0" }),
      file("package-lock.json", lock),
    ]);
    const failure = await local.builder.build(request, never).catch((error) => error);
    expect(failure).toMatchObject({ stage: "build", code: "install_failed" });
    expect(failure.message).toContain("The lock file is out of date");
  });

  test("a source whose folders can be built, but not its root, says which", async () => {
    const app = { name: "backend/app.py", content: "print(1)" };
    const readme = { name: "README.md", content: "" };
    const request = await requestOf(local.store, [app, readme, { name: "notes/a.txt", content: "" }]);
    const failure = await local.builder.build(request, never).catch((error) => error);
    expect(failure.code).toBe("runtime_not_detected");
    expect(failure.message).toContain(
      "These folders can be built: backend. Set the service's config.rootDirectory",
    );
  });

  test("a root of tools only, with the apps in folders, says which folders", async () => {
    const tools = { scripts: { dev: "concurrently x y" }, devDependencies: { concurrently: "9" } };
    const request = await requestOf(local.store, [
      file("package.json", tools),
      file("backend/requirements.txt", "flask"),
      file("frontend/package.json", { scripts: { start: "node ." } }),
      file("notes/todo.txt", ""),
    ]);
    const failure = await local.builder.build(request, never).catch((error) => error);
    expect(failure.code).toBe("start_command_missing");
    expect(failure.message).toContain(
      "Add one, or set the service's start command. These folders can be built: backend, frontend.",
    );
  });

  test("a tarball of a folder instead of its content is taken as what was meant", async () => {
    const entries = exampleApp("node").map((entry) => ({
      ...entry,
      name: entry.name.replace("./", "my-app/"),
    }));
    const { request, result } = await build([{ name: "my-app/", type: "directory" }, ...entries]);
    expect(request.lines.join("\n")).toContain("folder my-app");
    expect((await local.ask(result, "/", { GREETING: "from below" })).body).toContain("from below");
  });

  test("a link that leads out of the folder that is taken as root is refused", async () => {
    const link: ArchiveEntry = { name: "my-app/out", type: "symlink", linkname: "../x" };
    const request = await requestOf(local.store, [file("my-app/index.html", "x"), link]);
    const failure = local.builder.build(request, never);
    await expect(failure).rejects.toMatchObject({ stage: "source", code: "archive_link_escapes" });
    expect(await local.remains(request.buildId)).toEqual([]);
  });

  test("a log that cannot be written ends the build", async () => {
    const broken = (line: string) => {
      if (line.startsWith("$")) throw new Error("the disk is full");
    };
    const pkg = { scripts: { build: "sleep 1000", start: "node ." } };
    const request = await requestOf(local.store, [file("package.json", pkg)], { log: broken });
    await expect(local.builder.build(request, never)).rejects.toThrow("the disk is full");
    expect(await local.remains(request.buildId)).toEqual([]);
  });

  test("a build whose process was killed starts clean, and nothing of the first goes on beside it", async () => {
    const script = `console.log("pid " + process.pid); if (!require("node:fs").existsSync("../../go-on")) setInterval(() => {}, 1000);
      require("node:fs").appendFileSync("runs.txt", "x");`;
    const pkg = { scripts: { build: "node build.js", start: "node server.js" } };
    const request = await requestOf(local.store, [file("package.json", pkg), file("build.js", script)]);
    const program = join(import.meta.dirname, "../../../../test/contracts/ports/builder/local-process.ts");
    const child = fork(program, [local.root, JSON.stringify(request)]);
    let pid = 0;
    child.on("message", (line) => {
      pid ||= Number(/^pid (\d+)$/.exec(String(line))?.[1] ?? 0);
    });
    while (pid === 0) await delay(10);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(startedOf(pid)).toBeDefined();
    writeFileSync(join(local.folder, "go-on"), "");
    // Behind walls a build would not see that it may go on.
    const { folder: all, store } = local;
    const builder = createLocalBuilder({ folder: all, store, environment: process.env });
    const result = await builder.build(request, never);
    expect(startedOf(pid)).toBeUndefined();
    const { app, folder } = artifactFolders(local.folder, request.buildId);
    expect(readFileSync(join(app, "runs.txt"), "utf8")).toBe("x");
    expect(readdirSync(folder).sort()).toEqual(["app", "berth.json", "package.json"]);
    expect(result.command).toBe("node server.js");
    await rm(join(local.folder, "go-on"));
  });

  test("a fetch whose process was killed starts clean, and nothing of the first asks the server any more", async () => {
    const commit = local.git.create("killed", { "index.html": "<h1>x</h1>" });
    const hanging = { kind: "git" as const, repository: `${local.git.origin}/hangs/a.git`, branch: "main" };
    const request = await requestOf(local.store, [], { source: hanging });
    const asked = new Promise<void>((resolve) =>
      local.git.watch(({ url }) => url.includes("/hangs/") && resolve()),
    );
    const program = join(import.meta.dirname, "../../../../test/contracts/ports/builder/local-process.ts");
    const child = fork(program, [local.root, JSON.stringify(request)]);
    await asked;
    child.kill("SIGKILL");
    await once(child, "exit");
    const { folder } = artifactFolders(local.folder, request.buildId);
    const left = findProcessesOf(folder);
    expect(left).not.toEqual([]);
    const source = { ...hanging, repository: local.git.url("killed") };
    expect((await local.builder.build({ ...request, source }, never)).commit).toBe(commit);
    expect(left.filter(({ pid, started }) => startedOf(pid) === started)).toEqual([]);
    expect(await local.remains(request.buildId)).toEqual([folder]);
  });
});
