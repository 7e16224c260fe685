import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import type { RuntimeHarness } from "../../../../test/contracts/ports/runtime/harness.ts";
import { findProcessesOf } from "../../shared/process-tree.ts";
import type { Runtime } from "../port.ts";
import { artifactFolders, directoryArtifact } from "./artifact.ts";
import { startRouter } from "./routing/router.ts";
import { createLocalRuntime, type LocalRuntime, type LocalRuntimeOptions } from "./runtime.ts";

const log = { info() {}, warn() {}, error: console.error };
const secret = "a secret of the tests";
export const artifact = directoryArtifact("bld_1");
export const cleanups: (() => Promise<unknown>)[] = [];

/** Undoes what a test has opened; for `afterEach`. */
export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}

/** Makes a folder with the artifact, which is removed after the test; then nothing may run in it. */
export function makeRoot(): { root: string; folder: string; artifactsFolder: string } {
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

/** Starts a runtime in this process. */
export async function openLocal(options: Partial<LocalRuntimeOptions> = {}) {
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

/** Starts what the contract of runtimes is run against. */
export async function openHarness(options: Partial<LocalRuntimeOptions> = {}): Promise<RuntimeHarness> {
  const harness = await openLocal(options);
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

/** Starts a runtime in a process of its own. */
export async function forkRuntime(options: { folder: string; artifactsFolder: string; secret?: string }) {
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

/** Prints its process id, and answers with it. */
export const pidApp = `
  console.log("born", process.pid);
  require("node:http").createServer((req, res) => res.end(String(process.pid))).listen(process.env.PORT);
`;

/** Resolves with the lines of a service once there are `count`, oldest first. */
export async function logged(runtime: LocalRuntime, serviceId: string, count = 1): Promise<string[]> {
  for (;;) {
    const { lines } = await runtime.logs({ serviceId, environmentId: "env_1", limit: 1000 });
    if (lines.length >= count) return lines.map((line) => line.message).reverse();
    await delay(20);
  }
}
