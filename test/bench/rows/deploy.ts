import { execFileSync, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, median } from "../row.ts";

const ROUNDS = 9;
const MIN_READY_MS = 1_000;
/** The folder of the example app. */
export const app = join(import.meta.dirname, "../../apps/node");

/**
 * The example node app from POST deploy-from-archive to `healthyAt`, less the second that a release must be up,
 * compared with unpacking the same archive and starting it by hand until it answers.
 */
export const deploy: Bench = {
  names: ["deploy-node-app"],
  run: async (platform) => {
    const archive = execFileSync("tar", ["-cz", "-C", app, "."]);
    const { project, S } = await service(platform);
    const ratios: number[] = [];
    for (let version = 1; version <= ROUNDS; version++) {
      const hand = await byHand(archive);
      const ours = (await byBerth(platform, S, archive, version)) - MIN_READY_MS;
      ratios.push(ours / hand);
    }
    await platform.call("DELETE", `${project}?confirmImpact=true`);
    return [{ name: "deploy-node-app", value: median(ratios), unit: "x by hand", goal: "<= 2" }];
  },
};

/** Creates a web service; returns its path and that of its project. */
async function service(platform: Platform): Promise<{ project: string; S: string }> {
  const { P: project, E } = await newEnvironment(platform, "deploy");
  await platform.call("POST", `${E}/services`, { name: "web", type: "web" });
  return { project, S: `${E}/services/web` };
}

async function byBerth(platform: Platform, S: string, archive: Buffer, version: number): Promise<number> {
  const posted = await deployArchive(platform, S, archive);
  // It cannot be healthy earlier, and polling would slow down what is measured.
  await new Promise((resolve) => setTimeout(resolve, MIN_READY_MS));
  for (;;) {
    const found = await platform.call<{ healthyAt?: string; status: string }>(
      "GET",
      `${S}/deployments/${version}`,
    );
    if (found.status === "failed") throw new Error("the example app did not deploy");
    if (found.healthyAt) return Date.parse(found.healthyAt) - posted;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Uploads the archive and deploys it; returns the time of the POST that deploys, in ms since 1970. */
export async function deployArchive(platform: Platform, S: string, archive: Buffer): Promise<number> {
  type Target = { uploadUrl: string; contentType: string; archiveRef: string };
  const target = await platform.call<Target>("POST", `${S}/uploads`, {});
  await fetch(target.uploadUrl, {
    method: "PUT",
    headers: { "content-type": target.contentType },
    body: new Uint8Array(archive),
  });
  const posted = Date.now();
  await platform.call("POST", `${S}/deploy-from-archive`, { archiveRef: target.archiveRef });
  return posted;
}

async function byHand(archive: Buffer): Promise<number> {
  const dir = await mkdtemp(join(tmpdir(), "berth-hand-"));
  const port = await freePort();
  await writeFile(join(dir, "app.tgz"), archive);
  const started = Date.now();
  execFileSync("tar", ["-xzf", "app.tgz"], { cwd: dir });
  const child = spawn(process.execPath, ["server.js"], {
    cwd: dir,
    env: { PATH: process.env.PATH, PORT: String(port) },
    stdio: "ignore",
  });
  while (!(await answers(port))) await new Promise((resolve) => setTimeout(resolve, 2));
  const taken = Date.now() - started;
  child.kill("SIGKILL");
  await rm(dir, { recursive: true });
  return taken;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const request = http.get({ host: "127.0.0.1", port }, (response) => {
      response.resume();
      resolve(true);
    });
    request.on("error", () => resolve(false));
  });
}
