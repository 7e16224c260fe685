import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, readlink, rename, rm, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Deployment, open } from "../support/apps.ts";
import { archiveOf } from "../support/archives.ts";
import { end, type Launched, launch } from "../support/launched.ts";

const root = resolve(import.meta.dirname, "../..");
let state: string;
let data: string;
let platform: Launched;
let S: string;

/** The data folder lies in the clone, as `.berth` does. */
beforeAll(async () => {
  await mkdir(join(root, ".cache"), { recursive: true });
  state = await mkdtemp(join(tmpdir(), "berth-state-"));
  data = await mkdtemp(join(root, ".cache/start-"));
  platform = await launch({ dir: data, env: { XDG_STATE_HOME: state } });
});

afterAll(async () => {
  if (platform) await end(platform.child, "SIGTERM");
  await Promise.all([state, data].map((dir) => rm(dir, { recursive: true, force: true })));
});

const startAgain = () => launch({ dir: data, env: { XDG_STATE_HOME: state } });

/** Answers with what a build and then an app see of the projects in whose folders they might lie. */
const LOOK = `
  const fs = require("node:fs"), path = require("node:path");
  const resolves = (name) => { try { return require.resolve(name); } catch {} };
  const seen = ["fastify", "typescript/package.json", "@types/node/package.json"].map(resolves).filter(Boolean);
  const names = ["node_modules", "tsconfig.json", ".git", ".npmrc", "pyproject.toml", "go.mod", "go.work", ".env"];
  for (let dir = path.dirname(__dirname); dir !== path.dirname(dir); dir = path.dirname(dir))
    seen.push(...names.map((name) => path.join(dir, name)).filter((one) => fs.existsSync(one)));
  module.exports = seen;`;
const FILES = {
  "package.json": JSON.stringify({
    scripts: {
      build: `node -p 'JSON.stringify(require("./look.js"))' > built.json`,
      start: "node server.js",
    },
  }),
  "look.js": LOOK,
  "server.js": `const said = JSON.stringify({ build: require("./built.json"), run: require("./look.js") });
    require("node:http").createServer((q, s) => s.end(said)).listen(process.env.PORT);`,
};

const APP = Object.entries(FILES).map(([name, content]) => ({ name, content }));

async function must<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await platform.requestUntilAnswered(method, path, body);
  if (answer.status >= 400) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

async function deploy(): Promise<Deployment> {
  type Target = { uploadUrl: string; contentType: string; archiveRef: string };
  const target = await must<Target>("POST", `${S}/uploads`, {});
  const headers = { "content-type": target.contentType };
  const put = await fetch(target.uploadUrl, {
    method: "PUT",
    headers,
    body: new Uint8Array(await archiveOf(APP)),
  });
  expect(put.ok).toBe(true);
  const { archiveRef } = target;
  const { version } = await must<Deployment>("POST", `${S}/deploy-from-archive`, { archiveRef });
  return eventually("the deployment is healthy", async () => {
    const deployment = await must<Deployment>("GET", `${S}/deployments/${version}`);
    if (deployment.status === "failed") throw new Error(JSON.stringify(deployment.errors));
    return deployment.healthyAt ? deployment : undefined;
  });
}

async function answerOfApp(): Promise<string> {
  const { url } = await must<{ url: string }>("GET", S);
  return eventually("the app answers", async () => {
    const { status, body } = await open(url);
    return status === 200 && body;
  });
}

test("builds and apps see nothing of the project in whose folder the data lies", async () => {
  const A = `/accounts/${platform.accountId}`;
  const { id: project } = await must<{ id: string }>("POST", `${A}/projects`, { name: "start" });
  const E = `${A}/projects/${project}/environments`;
  const { id } = await must<{ id: string }>("POST", E, { name: "production" });
  await must("POST", `${E}/${id}/services`, { name: "web", type: "web" });
  S = `${E}/${id}/services/web`;
  await deploy();
  expect(JSON.parse(await answerOfApp())).toEqual({ build: [], run: [] });
});

test("apps of a data folder from before run on; local.json names the owner's first account, not the newest", async () => {
  const first = platform.accountId;
  await must("POST", "/accounts", { handle: "second-account", displayName: "Second" });
  await end(platform.child, "SIGTERM");
  // As it was before: what is built and runs lay in the data folder.
  const apps = await readlink(join(data, "apps"));
  for (const name of ["artifacts", "runtime"]) {
    await rm(join(data, "deployer", name), { force: true });
    await rename(join(apps, name), join(data, "deployer", name));
  }
  for (const path of [apps, join(data, "apps")]) await rm(path, { recursive: true });
  platform = await startAgain();
  expect(platform.accountId).toBe(first);
  expect(JSON.parse(await answerOfApp())).toMatchObject({ run: [] });
  expect((await stat(join(data, "apps", "artifacts"))).isDirectory()).toBe(true);
});

test("a PostgreSQL that somebody asked to end, which would wait for its clients, is ended and started again", async () => {
  const pidFile = join(data, "postgres/data/postmaster.pid");
  const pid = async () => Number((await readFile(pidFile, "utf8").catch(() => "")).split("\n")[0]);
  const before = await pid();
  process.kill(before, "SIGTERM");
  await eventually("another one runs", async () => ![0, before].includes(await pid()));
  await must("GET", `/accounts/${platform.accountId}`);
  expect(platform.output()).toMatch(/postgres .*restarting/);
});

test("what takes the API's port while the gateway starts gets no token, and no start moves the API elsewhere", async () => {
  await end(platform.child, "SIGTERM");
  const file = join(data, "ports.json");
  const { gateway } = JSON.parse(await readFile(file, "utf8")) as { gateway: number };
  const heard: string[] = [];
  const impostor = createServer((request, response) => {
    heard.push(`${request.method} ${request.url} ${request.headers.authorization ?? ""}`);
    response.end(JSON.stringify({ data: [{ id: "acc_impostor", myRole: "owner" }], page: {} }));
  });
  const before = (await stat(file)).mtimeMs;
  const starting = start();
  await eventually("the start has chosen its ports", async () => (await stat(file)).mtimeMs !== before);
  impostor.listen(gateway, "127.0.0.1");
  try {
    expect(await starting).toEqual([5, expect.stringContaining(`Port ${gateway} on 127.0.0.1 is in use`)]);
    expect(heard.filter((line) => line.includes("Bearer"))).toEqual([]);
    const sentence = new RegExp(
      `Port ${gateway} on .* in use, and the API of this data folder has that address.*--port`,
    );
    expect(await start()).toEqual([5, expect.stringMatching(sentence)]);
  } finally {
    impostor.closeAllConnections();
    impostor.close();
  }
});

/** Runs `npm start` without a port until it exits. Returns its exit code and what it said. */
async function start(): Promise<[number | null, string]> {
  const args = ["deploy/local/main.ts", "--data", data];
  const env = { ...process.env, XDG_STATE_HOME: state };
  const child: ChildProcess = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env,
  });
  let output = "";
  for (const stream of [child.stdout!, child.stderr!])
    stream.on("data", (chunk) => {
      output += chunk;
    });
  const [code] = await once(child, "close");
  return [code, output];
}
