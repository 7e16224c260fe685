import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { never, requestOf } from "../../../../test/contracts/ports/builder/harness.ts";
import { type ArchiveEntry, archiveOf } from "../../../../test/support/archives.ts";
import { artifactFolders } from "../../runtime/local/artifact.ts";
import { createDiskStore } from "../../store/disk/adapter.ts";
import { createLocalBuilder } from "./adapter.ts";

const root = mkdtempSync(join(tmpdir(), "berth-cache-"));
const folder = join(root, "artifacts");
const log = { info() {}, warn() {}, error: console.error };
const store = createDiskStore({ folder: join(root, "store"), baseUrl: "", secrets: ["x"], log });
/** What the package registries hand out, by path; and what was asked of them. */
const files = new Map<string, Buffer>();
const asked: string[] = [];
const registry = http.createServer((request, response) => {
  asked.push(request.url!);
  const found = files.get(request.url!);
  response.writeHead(found ? 200 : 404, { "content-type": "text/html" }).end(found);
});
let builder: ReturnType<typeof createLocalBuilder>;
let origin = "";
beforeAll(async () => {
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
  const environment = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    npm_config_registry: `${origin}/`,
    npm_config_cache: join(root, "npm"),
    PIP_INDEX_URL: `${origin}/simple`,
    PIP_NO_CACHE_DIR: "1",
  };
  builder = createLocalBuilder({ folder, store, environment });
});
afterAll(() => {
  registry.close();
  rmSync(root, { recursive: true });
});

async function build(entries: ArchiveEntry[], serviceId: string) {
  const request = await requestOf(store, entries, { serviceId });
  const before = asked.length;
  const result = await builder.build(request, never);
  const app = artifactFolders(folder, request.buildId).app;
  const ran = request.lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
  return { ...result, app, ran, lines: request.lines, asked: asked.slice(before) };
}

/** Publishes a package for npm; gives its entry of a lock file. */
async function publish(name: string, version: string, extra: Record<string, string> = {}) {
  const files_ = { "package.json": JSON.stringify({ name, version, ...JSON.parse(extra.manifest ?? "{}") }) };
  const entries = Object.entries({ ...files_, "index.js": `module.exports = "${name} ${version}"` });
  const tarball = await archiveOf(entries.map(([file, content]) => ({ name: `package/${file}`, content })));
  const path = `/${name}/-/${name}-${version}.tgz`;
  files.set(path, tarball);
  const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
  return { version, resolved: origin + path, integrity };
}

function nodeApp(dependencies: Record<string, { version: string }>, more: Record<string, unknown> = {}) {
  const versions = Object.fromEntries(Object.entries(dependencies).map(([name, one]) => [name, one.version]));
  const pkg = { name: "app", version: "1.0.0", scripts: { start: "node main.js", ...(more.scripts ?? {}) } };
  const packages = {
    "": { name: "app", version: "1.0.0", dependencies: versions },
    ...Object.fromEntries(Object.entries(dependencies).map(([name, one]) => [`node_modules/${name}`, one])),
  };
  const lock = { name: "app", version: "1.0.0", lockfileVersion: 3, requires: true, packages };
  return [
    { name: "package.json", content: JSON.stringify({ ...pkg, dependencies: versions }) },
    { name: "package-lock.json", content: JSON.stringify(lock) },
    { name: "main.js", content: String(more.main ?? "") },
  ];
}

const installed = (app: string, name: string) =>
  readFileSync(join(app, "node_modules", name, "index.js"), "utf8");

test("a second build of an unchanged lock file installs nothing, and a changed one installs again", async () => {
  const greet = await publish("greet", "1.0.0");
  const first = await build(nodeApp({ greet }), "svc_node");
  expect(first.ran).toEqual([expect.stringMatching(/^npm ci/)]);
  const second = await build(nodeApp({ greet }, { main: "// other code" }), "svc_node");
  expect([second.ran, second.asked]).toEqual([[], []]);
  expect(second.lines.join("\n")).toContain("package-lock.json did not change");
  expect(installed(second.app, "greet")).toContain("greet 1.0.0");

  const third = await build(nodeApp({ greet: await publish("greet", "2.0.0") }), "svc_node");
  expect(third.ran).toEqual([expect.stringMatching(/^npm ci/)]);
  expect(installed(third.app, "greet")).toContain("greet 2.0.0");
  expect(installed(second.app, "greet")).toContain("greet 1.0.0");
  expect(readdirSync(join(`${folder}-cache`, "svc_node"))).toHaveLength(1);
});

test("what a build or an app does to its dependencies, no other build sees", async () => {
  const spoil = "node -e \"require('fs').appendFileSync('node_modules/own/index.js', ' // spoiled')\"";
  const app = nodeApp({ own: await publish("own", "1.0.0") }, { scripts: { build: spoil } });
  const [first, second, third] = [
    await build(app, "svc_own"),
    await build(app, "svc_own"),
    await build(app, "svc_own"),
  ];
  expect(second.ran).toEqual(["npm run build"]);
  for (const one of [first, second, third])
    expect(installed(one.app, "own").match(/spoiled/g)).toEqual(["spoiled"]);
  writeFileSync(join(second.app, "node_modules/own/index.js"), "changed while it runs");
  expect(installed((await build(app, "svc_own")).app, "own")).not.toContain("changed");
  const other = await build(app, "svc_other");
  expect(other.ran[0]).toMatch(/^npm ci/);
});

test("scripts that packages run at their install see the files of each build", async () => {
  const script = "node -e \"require('fs').copyFileSync(process.env.INIT_CWD + '/main.js', 'index.js')\"";
  const manifest = JSON.stringify({ scripts: { postinstall: script } });
  const entry = { ...(await publish("generator", "1.0.0", { manifest })), hasInstallScript: true };
  await build(nodeApp({ generator: entry }, { main: "// first" }), "svc_generator");
  const second = await build(nodeApp({ generator: entry }, { main: "// second" }), "svc_generator");
  expect([second.ran, second.asked]).toEqual([["npm rebuild"], []]);
  expect(installed(second.app, "generator")).toBe("// second");
});

test("an app that has a part in the install itself is installed each time", async () => {
  const app = nodeApp({ plain: await publish("plain", "1.0.0") }, { scripts: { postinstall: "echo mine" } });
  await build(app, "svc_scripts");
  expect((await build(app, "svc_scripts")).ran).toEqual([expect.stringMatching(/^npm ci/)]);
});

test("what is kept goes when the service does, and a damaged copy is installed anew", async () => {
  const app = nodeApp({ leaving: await publish("leaving", "1.0.0") });
  await build(app, "svc_leaving");
  const kept = join(`${folder}-cache`, "svc_leaving");
  rmSync(join(kept, readdirSync(kept)[0]!, "content"), { recursive: true });
  const again = await build(app, "svc_leaving");
  expect(again.ran).toEqual([expect.stringMatching(/^npm ci/)]);
  expect(installed(again.app, "leaving")).toContain("leaving 1.0.0");
  expect((await build(app, "svc_leaving")).ran).toEqual([]);
  await builder.removeCaches("svc_leaving");
  expect(existsSync(kept)).toBe(false);
  expect((await build(app, "svc_leaving")).ran).toEqual([expect.stringMatching(/^npm ci/)]);
});

test("requirements of a Python app are installed once, and their programs run in each build", async (context) => {
  const making = `import sys, zipfile
z = zipfile.ZipFile(sys.argv[1], "w")
z.writestr("hail.py", "def main(): print('hail from', __file__)")
d = "hail-1.0.dist-info/"
z.writestr(d + "METADATA", "Metadata-Version: 2.1\\nName: hail\\nVersion: 1.0\\n")
z.writestr(d + "WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
z.writestr(d + "entry_points.txt", "[console_scripts]\\nhail = hail:main\\n")
z.writestr(d + "RECORD", "hail.py,,\\n" + "".join(d + f + ",,\\n" for f in ["METADATA", "WHEEL", "entry_points.txt", "RECORD"]))
z.close()`;
  const wheel = "hail-1.0-py3-none-any.whl";
  const made = spawnSync("python3", ["-c", making, join(root, wheel)], { encoding: "utf8" });
  if (made.error) return context.skip("there is no python3 on this machine");
  files.set("/simple/hail/", Buffer.from(`<a href="${origin}/${wheel}">${wheel}</a>`));
  files.set(`/${wheel}`, readFileSync(join(root, wheel)));
  const app = (main: string) => [
    { name: "requirements.txt", content: "hail==1.0\n" },
    { name: "main.py", content: main },
  ];
  const request = await requestOf(store, app("pass"), { serviceId: "svc_python" });
  const first = await builder.build(request, never).catch((error) => error);
  if (request.lines.some((line) => line.includes("ensurepip is not")))
    return context.skip("this python3 has no venv");
  expect(first).toMatchObject({ runtime: "python" });
  const second = await build(app("print('other code')"), "svc_python");
  expect([second.ran, second.asked]).toEqual([[], []]);
  await builder.discard(request); // nothing of the first is needed
  const said = spawnSync(join(second.app, ".venv/bin/hail"), { encoding: "utf8" });
  expect(said.stdout).toContain(`hail from ${second.app}/.venv`);
});
