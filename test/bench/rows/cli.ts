import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, median } from "../row.ts";
import { app, deployArchive } from "./deploy.ts";

const root = resolve(import.meta.dirname, "../../..");
const STARTS = 21;
const DEPLOYS = 7;

/**
 * The command line as it is published: what a start takes beside an empty Node, and `berth up` of the example app beside
 * the same requests sent from a process that runs already, both until `healthyAt`.
 */
export const cli: Bench = {
  names: ["cli-start", "cli-up"],
  run: async (platform) => {
    const folder = await mkdtemp(join(tmpdir(), "berth-bench-cli-"));
    try {
      const command = publish(folder);
      const home = { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, BERTH_URL: platform.origin };
      return [
        starts(command, home),
        await ups(platform, folder, command, { ...home, BERTH_TOKEN: platform.ownerToken }),
      ];
    } finally {
      await rm(folder, { recursive: true });
    }
  },
};

/** Builds the package as it is published; returns its command. */
function publish(folder: string): string {
  const source = join(root, "clients/cli");
  execFileSync("cp", ["-r", join(source, "bin"), join(source, "package.json"), folder]);
  const config = join(source, "tsconfig.build.json");
  execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", config, "--outDir", join(folder, "dist")]);
  return join(folder, "bin/berth.js");
}

function starts(command: string, env: NodeJS.ProcessEnv) {
  const time = (args: string[]) => {
    const began = performance.now();
    execFileSync(process.execPath, args, { env });
    return performance.now() - began;
  };
  const [ours, empty]: [number[], number[]] = [[], []];
  // Both once before: files and compiled code are then where a second start finds them.
  for (let n = -1; n < STARTS; n++) {
    const [a, b] = [time([command, "--version"]), time(["-e", "0"])];
    if (n < 0) continue;
    ours.push(a);
    empty.push(b);
  }
  const detail = `${median(ours).toFixed(0)} ms, an empty Node ${median(empty).toFixed(0)} ms`;
  return {
    name: "cli-start",
    value: median(ours) / median(empty),
    unit: "x empty node",
    goal: "<= 1.5",
    detail,
  };
}

async function ups(platform: Platform, folder: string, command: string, env: NodeJS.ProcessEnv) {
  const { P, E } = await newEnvironment(platform, "cli");
  for (const name of ["ours", "raw"]) await platform.call("POST", `${E}/services`, { name, type: "web" });
  const named = (path: string) => ({ id: path.split("/").at(-1)!, name: "bench" });
  const link = {
    origin: platform.origin,
    account: { id: platform.accountId, name: "bench" },
    project: named(P),
    environment: named(E),
    service: "ours",
  };
  const linked = join(folder, "app");
  await cp(app, linked, { recursive: true });
  await writeFile(join(linked, ".berth.json"), JSON.stringify(link));
  const [ours, raw]: [number[], number[]] = [[], []];
  for (let version = 1; version <= DEPLOYS; version++) {
    const began = Date.now();
    const child = spawn(process.execPath, [command, "up"], { cwd: linked, env, stdio: "ignore" });
    const [code] = (await once(child, "exit")) as [number];
    if (code !== 0) throw new Error(`berth up ended with ${code}`);
    ours.push(Date.now() - began);
    raw.push(await byHand(platform, `${E}/services/raw`, version));
  }
  await platform.call("DELETE", `${P}?confirmImpact=true`);
  const detail = `${median(ours).toFixed(0)} ms, the requests ${median(raw).toFixed(0)} ms`;
  return { name: "cli-up", value: median(ours) / median(raw), unit: "x raw calls", goal: "<= 1.2", detail };
}

async function byHand(platform: Platform, S: string, version: number): Promise<number> {
  const began = Date.now();
  await deployArchive(platform, S, execFileSync("tar", ["-cz", "-C", app, "."]));
  for (;;) {
    const { healthyAt } = await platform.call<{ healthyAt?: string }>("GET", `${S}/deployments/${version}`);
    if (healthyAt) return Date.now() - began;
    await new Promise((next) => setTimeout(next, 20));
  }
}
