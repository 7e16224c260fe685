import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { answeringApp } from "../../../../test/contracts/ports/runtime/apps.ts";
import { imageRefusalContract, runtimeContract } from "../../../../test/contracts/ports/runtime/contract.ts";
import {
  isRunning,
  type RuntimeHarness,
  releaseOf,
  statusOf,
} from "../../../../test/contracts/ports/runtime/harness.ts";
import { findProcessesOf, startedOf } from "../../shared/process-tree.ts";
import type { Release, Runtime } from "../port.ts";
import { artifactFolders, directoryArtifact } from "./artifact.ts";
import { startRouter } from "./routing/router.ts";
import { createLocalRuntime, type LocalRuntime, type LocalRuntimeOptions } from "./runtime.ts";

const log = { info() {}, warn() {}, error: console.error };
const secret = "a secret of the tests";
const artifact = directoryArtifact("bld_1");
const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A folder with the artifact, removed after the test with whatever still runs in it. */
function makeRoot(): { root: string; folder: string; artifactsFolder: string } {
  const root = mkdtempSync(join(tmpdir(), "berth-runtime-"));
  const artifactsFolder = join(root, "artifacts");
  const { app, manifest } = artifactFolders(artifactsFolder, "bld_1");
  mkdirSync(app, { recursive: true });
  writeFileSync(manifest, JSON.stringify({ runtime: "node", path: [] }));
  cleanups.push(async () => {
    expect(findProcessesOf(root)).toEqual([]);
    await rm(root, { recursive: true });
  });
  return { root, folder: join(root, "runtime"), artifactsFolder };
}

async function openLocal(options: Partial<LocalRuntimeOptions> = {}) {
  const places = options.folder ? undefined : makeRoot();
  const router = await startRouter({ port: 0, log });
  const runtime = createLocalRuntime({
    secret,
    router,
    log,
    ...places,
    ...options,
  } as LocalRuntimeOptions);
  await runtime.start();
  const close = async () => {
    await runtime.stopAll();
    await router.close();
  };
  const fetch = (url: string, path: string) => fetchByHost(router.port, new URL(url).host, path);
  return { runtime, artifact, fetch, close, folder: places?.folder ?? options.folder! };
}

async function openHarness(): Promise<RuntimeHarness> {
  const harness = await openLocal();
  const cleanup = cleanups.splice(0);
  return {
    ...harness,
    async close() {
      await harness.close();
      for (const one of cleanup) await one();
    },
  };
}

function fetchByHost(port: number, host: string, path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    request({ host: "127.0.0.1", port, path, headers: { host }, agent: false }, async (response) => {
      const chunks = await response.toArray().catch(reject);
      resolve({ status: response.statusCode!, body: Buffer.concat(chunks ?? []).toString() });
    })
      .on("error", reject)
      .end();
  });
}

/** A runtime in a process of its own. */
async function forkRuntime(options: { folder: string; artifactsFolder: string; secret?: string }) {
  const program = join(import.meta.dirname, "../../../../test/contracts/ports/runtime/local-process.ts");
  const child = fork(program, [JSON.stringify({ secret, ...options })], { stdio: "inherit" });
  const exited = once(child, "exit");
  let count = 0;
  const call = async (name: string, ...args: unknown[]) => {
    const id = ++count;
    child.send({ id, call: name, args });
    for (;;) {
      const [answer] = await once(child, "message");
      if (answer.id !== id) continue;
      if (answer.error !== undefined) throw new Error(answer.error);
      return answer.result;
    }
  };
  cleanups.push(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  await call("start");
  const port = await call("port");
  return {
    call,
    fetch: (url: string, path: string) => fetchByHost(port, new URL(url).host, path),
    runtime: { status: (id: string) => call("status", id) } as Pick<Runtime, "status"> as Runtime,
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
    async stop() {
      await call("stopAll");
      child.disconnect();
      await exited;
    },
  };
}

const pidApp = `
  console.log("born", process.pid);
  require("node:http").createServer((req, res) => res.end(String(process.pid))).listen(process.env.PORT);
`;

async function logged(runtime: LocalRuntime, serviceId: string, count = 1): Promise<string[]> {
  for (;;) {
    const { lines } = await runtime.logs({ serviceId, limit: 1000 });
    if (lines.length >= count) return lines.map((line) => line.message).reverse();
    await delay(20);
  }
}

runtimeContract("local", openHarness);
imageRefusalContract("local", openHarness);

describe("an app on this machine", () => {
  test("gets its variables, PORT and a bare minimum, and nothing of the platform's environment", async () => {
    process.env.DATABASE_PASSWORD = "of the platform";
    cleanups.push(async () => delete process.env.DATABASE_PASSWORD);
    const { runtime, close } = await openLocal();
    cleanups.push(close);
    const one = releaseOf(artifact, "console.log(JSON.stringify(process.env)); setInterval(() => {}, 1000)");
    await runtime.apply({ ...one, type: "worker" });
    const env = JSON.parse((await logged(runtime, one.serviceId))[0]!);
    // PWD, OLDPWD, SHLVL and _ are the shell's own.
    const names = Object.keys(env).filter((name) => !["PWD", "OLDPWD", "SHLVL", "_"].includes(name));
    expect(names.sort()).toEqual(["ANSWER", "HOME", "LANG", "PATH", "PORT", "SCRIPT"]);
    expect(statSync(env.HOME).isDirectory()).toBe(true);
  });

  test("is stopped with all it started, also what left its process group", async () => {
    const { runtime, close } = await openLocal();
    cleanups.push(close);
    const script = `
      const { spawn } = require("node:child_process");
      for (const detached of [false, true]) {
        const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached, stdio: "ignore" });
        console.log(child.pid);
      }
      console.log(process.pid);
      setInterval(() => {}, 1000);`;
    const one = releaseOf(artifact, script, { type: "worker" });
    await runtime.apply(one);
    const pids = (await logged(runtime, one.serviceId, 3)).map(Number);
    expect(pids.map((pid) => typeof startedOf(pid))).toEqual(["string", "string", "string"]);
    await runtime.remove(one.serviceId);
    expect(pids.map(startedOf)).toEqual([undefined, undefined, undefined]);
  });

  test("that ignores SIGTERM is killed after the grace period", async () => {
    const { runtime, close } = await openLocal({ times: { graceMs: 300 } });
    cleanups.push(close);
    const script = `process.on("SIGTERM", () => {}); console.log(process.pid); setInterval(() => {}, 1000);`;
    const one = releaseOf(artifact, script, { type: "worker" });
    await runtime.apply(one);
    const [pid] = await logged(runtime, one.serviceId);
    await runtime.remove(one.serviceId);
    expect(startedOf(Number(pid))).toBeUndefined();
  });

  test("that finishes its work on SIGTERM is given the time, and its last words are kept", async () => {
    const { runtime, close } = await openLocal();
    cleanups.push(close);
    const script = `process.on("SIGTERM", () => setTimeout(() => { process.stdout.write("done"); process.exit() }, 300));
      console.log("ready"); setInterval(() => {}, 1000);`;
    const one = releaseOf(artifact, script, { type: "worker" });
    await runtime.apply(one);
    await logged(runtime, one.serviceId);
    await runtime.apply({ ...one, replicas: 0 });
    expect(await logged(runtime, one.serviceId, 2)).toEqual(["ready", "done"]);
  });

  test("that never answers is degraded after the rollout deadline, with the reason", async () => {
    const { runtime, close } = await openLocal({ times: { rolloutDeadlineMs: 500 } });
    cleanups.push(close);
    const one = releaseOf(artifact, "setInterval(() => {}, 1000)", { healthCheckPath: "/up" });
    await runtime.apply(one);
    const status = await statusOf(runtime, one.serviceId, (now) => now.state !== "starting");
    expect(status).toMatchObject({ state: "degraded", reason: "rollout_deadline_exceeded" });
    expect(status.message).toContain("GET /up on PORT was not answered");
  });

  test.each([undefined, "/up"])(
    "that stops answering (health check at %s) gets no requests and is degraded until it answers again",
    async (healthCheckPath) => {
      const { runtime, close, fetch } = await openLocal({ times: { probeMs: 50 } });
      cleanups.push(close);
      const script = `const server = require("node:http").createServer((q, r) => r.end(String(process.pid)));
        const turn = () => server.listening ? (server.close(), server.closeAllConnections()) : server.listen(process.env.PORT);
        process.on("SIGUSR2", turn); turn(); setInterval(() => {}, 1000);`;
      const one = releaseOf(artifact, script, { healthCheckPath });
      await runtime.apply(one);
      const { url } = await statusOf(runtime, one.serviceId, isRunning);
      const pid = (await fetch(url!, "/")).body;
      process.kill(Number(pid), "SIGUSR2");
      const silent = await statusOf(runtime, one.serviceId, (now) => !isRunning(now));
      expect(silent).toMatchObject({ state: "degraded", reason: "health_check_failed", restarts: 0 });
      expect(silent.message).toMatch(/^The app is running, but /);
      expect([silent.serving, silent.usage!.at(-1)!.replicas]).toEqual([undefined, 0]);
      expect((await fetch(url!, "/")).status).toBe(503);
      process.kill(Number(pid), "SIGUSR2");
      await statusOf(runtime, one.serviceId, isRunning);
      expect(await fetch(url!, "/")).toEqual({ status: 200, body: pid });
    },
  );

  test("that floods its output is kept to the newest part, on disk and in the log", async () => {
    const { runtime, close, folder } = await openLocal();
    cleanups.push(close);
    const script = `const line = "x".repeat(999) + "\\n"; let n = 0;
      const write = () => { for (let i = 0; i < 4000; i++) process.stdout.write(line); if (++n < 8) setTimeout(write, 50); else console.log("the end"); };
      write(); setInterval(() => {}, 1000);`;
    const one = releaseOf(artifact, script, { type: "worker" });
    await runtime.apply(one);
    const newest = async () => (await runtime.logs({ serviceId: one.serviceId, limit: 1 })).lines[0]?.message;
    while ((await newest()) !== "the end") await delay(20);
    const bytesOnDisk = () => {
      const files = globSync(join(folder, "**/{stdout,*.log}"));
      return files.reduce((sum, file) => sum + statSync(file).blocks * 512, 0);
    };
    while (bytesOnDisk() > 20 * 1024 ** 2) await delay(20);
  });
});

describe("when Berth is killed", () => {
  test("apps go on and are taken over: same process, no gap, log complete", async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, `${pidApp} let n = 0; setInterval(() => console.log("tick", ++n), 20);`);
    const first = await forkRuntime(places);
    await first.call("apply", one);
    const before = await statusOf(first.runtime, one.serviceId, isRunning);
    const pid = (await first.fetch(before.url!, "/")).body;
    await first.kill();
    expect(startedOf(Number(pid))).toBeDefined();

    const second = await forkRuntime(places);
    const after = await second.call("status", one.serviceId);
    expect({ ...after, url: "" }).toEqual({ ...before, url: "" });
    expect((await second.fetch(after.url!, "/")).body).toBe(pid);
    await second.call("apply", one);
    const ticks = async (): Promise<number[]> => {
      const { lines } = await second.call("logs", {
        serviceId: one.serviceId,
        stream: "stdout",
        limit: 1000,
      });
      return lines
        .reverse()
        .slice(1)
        .map((line: { message: string }) => Number(line.message.split(" ")[1]));
    };
    const seen = await ticks();
    while ((await ticks()).length < seen.length + 10) await delay(20);
    const all = await ticks();
    expect(all).toEqual(Array.from({ length: all.length }, (_, n) => n + 1));
    expect((await second.fetch(after.url!, "/")).body).toBe(pid);
    await second.call("remove", one.serviceId);
    expect(startedOf(Number(pid))).toBeUndefined();
  });

  test("an app that died meanwhile is started again with its variables, and its last words are kept", async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, answeringApp, { env: { ANSWER: "as before" } });
    const first = await forkRuntime(places);
    await first.call("apply", one);
    const { url } = await statusOf(first.runtime, one.serviceId, isRunning);
    await first.kill();
    const app = findProcessesOf(places.folder);
    expect(app.length).toBeGreaterThan(0);
    for (const { pid } of app) process.kill(pid, "SIGKILL");
    while (app.some(({ pid, started }) => startedOf(pid) === started)) await delay(10);

    const second = await forkRuntime(places);
    const status = await statusOf(second.runtime, one.serviceId, isRunning);
    expect((await second.fetch(status.url!, "/")).body).toBe("as before");
    expect(new URL(status.url!).hostname).toBe(new URL(url!).hostname);
    const { lines } = await second.call("logs", { serviceId: one.serviceId, limit: 10 });
    expect(lines.filter((line: { message: string }) => line.message.startsWith("listening"))).toHaveLength(2);
    await second.stop();
  });

  test("at random moments of a roll-over, exactly the wanted processes remain", {
    timeout: 300_000,
  }, async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, pidApp, { replicas: 2 });
    for (let version = 1; version <= 12; version++) {
      const killed = await forkRuntime(places);
      await killed.call("apply", { ...one, version });
      await delay(version * 17);
      await killed.kill();
    }
    const last = await forkRuntime(places);
    await last.call("apply", { ...one, version: 12 });
    const status = await statusOf(last.runtime, one.serviceId, isRunning);
    expect(status.version).toBe(12);
    while (findProcessesOf(places.folder).length !== 2) await delay(50);
    const pids = findProcessesOf(places.folder).map(({ pid }) => String(pid));
    for (let n = 0; n < 6; n++) expect(pids).toContain((await last.fetch(status.url!, "/")).body);
    while (globSync(join(places.folder, "services/*/instances/*")).length !== 2) await delay(50);
    await last.stop();
  });

  test("processes whose records were deleted under them are ended", async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, pidApp);
    const first = await forkRuntime(places);
    await first.call("apply", one);
    await statusOf(first.runtime, one.serviceId, isRunning);
    await first.kill();
    await rm(places.folder, { recursive: true });
    expect(findProcessesOf(places.folder)).not.toEqual([]);
    const second = await forkRuntime(places);
    expect(findProcessesOf(places.folder)).toEqual([]);
    expect(await second.call("list")).toEqual([]);
  });

  test("a second Berth on the same folder is refused while the first lives, and not after", async () => {
    const places = makeRoot();
    const first = await forkRuntime(places);
    await expect(openLocal({ ...places })).rejects.toMatchObject({ code: "runtime_in_use" });
    await first.kill();
    await (await openLocal({ ...places })).close();
  });
});

describe("when Berth is stopped", () => {
  test("every app ends, and the next start brings back the same ones", async () => {
    const places = makeRoot();
    const releases: Release[] = [1, 2, 3].map((n) =>
      releaseOf(artifact, answeringApp, { env: { ANSWER: `app ${n}` } }),
    );
    const first = await openLocal({ ...places });
    for (const one of releases) await first.runtime.apply(one);
    for (const one of releases) await statusOf(first.runtime, one.serviceId, isRunning);
    await first.close();
    expect(findProcessesOf(places.folder)).toEqual([]);

    const second = await openLocal({ ...places });
    cleanups.push(second.close);
    for (const one of releases) {
      const status = await statusOf(second.runtime, one.serviceId, isRunning);
      expect((await second.fetch(status.url!, "/")).body).toBe(one.env.ANSWER);
    }
  });

  test("no variable and no command is readable in what it keeps on disk", async () => {
    const places = makeRoot();
    const marker = "marker-of-a-sensitive-value";
    const command = `test ${marker} && node -e "$SCRIPT"`;
    const one = releaseOf(artifact, answeringApp, { command, env: { KEY: marker } });
    const { runtime, close } = await openLocal({ ...places });
    await runtime.apply(one);
    await statusOf(runtime, one.serviceId, isRunning);
    const read = () => globSync(join(places.folder, "**/*.json*")).map((file) => readFileSync(file, "utf8"));
    const during = read();
    await close();
    expect(during.join("").length).toBeGreaterThan(500);
    expect([...during, ...read()].join("")).not.toContain(marker);
  });

  test("under another secret nothing of the old state is run", async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, answeringApp);
    const first = await openLocal({ ...places });
    await first.runtime.apply(one);
    await first.close();
    const second = await openLocal({ ...places, secret: "another secret altogether" });
    cleanups.push(second.close);
    expect(await second.runtime.list()).toEqual([]);
    expect(existsSync(join(places.folder, "services", one.serviceId))).toBe(false);
    await second.runtime.apply(one);
    await statusOf(second.runtime, one.serviceId, isRunning);
  });
});
