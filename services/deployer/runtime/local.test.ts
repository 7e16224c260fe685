import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { imageRefusalContract, type RuntimeHarness, runtimeContract } from "../../../test/ports/runtime.ts";
import { artifactFolders, directoryArtifact } from "./artifact.ts";
import { createLocalRuntime } from "./local.ts";
import { startRouter } from "./router.ts";

const logger = { info() {}, warn: console.warn, error: console.error };

async function openLocal(): Promise<RuntimeHarness> {
  const root = mkdtempSync(join(tmpdir(), "berth-runtime-"));
  const artifactsFolder = join(root, "artifacts");
  const { app, manifest } = artifactFolders(artifactsFolder, "bld_1");
  mkdirSync(app, { recursive: true });
  writeFileSync(manifest, JSON.stringify({ runtime: "node", path: [] }));
  const router = await startRouter({ port: 0, logger });
  const runtime = createLocalRuntime({
    folder: join(root, "runtime"),
    artifactsFolder,
    secret: "a secret of the tests",
    router,
    logger,
  });
  await runtime.start();
  return {
    runtime,
    artifact: directoryArtifact("bld_1"),
    fetch: (url, path) => fetchByHost(router.port, new URL(url).host, path),
    async close() {
      await runtime.stopAll();
      await router.close();
      await rm(root, { recursive: true });
    },
  };
}

function fetchByHost(port: number, host: string, path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const headers = { host };
    request({ host: "127.0.0.1", port, path, headers, agent: false }, async (response) => {
      const chunks = await response.toArray().catch(reject);
      resolve({ status: response.statusCode!, body: Buffer.concat(chunks ?? []).toString() });
    })
      .on("error", reject)
      .end();
  });
}

runtimeContract("local", openLocal);
imageRefusalContract("local", openLocal);
