import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import http from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { familyOf } from "../../support/processes.ts";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, median } from "../row.ts";
import { app, deployArchive } from "./deploy.ts";

const SERVICES = 50;
const ROUNDS = 3;
const DEBOUNCE_MS = 2_000;
/** How many services are prepared concurrently. */
const AT_ONCE = 10;

/**
 * From a change of a project's variable until all 50 running services answer with the new value, less the debounce
 * time, compared with starting the same 50 processes by a script until they answer.
 */
export const roll: Bench = {
  names: ["roll-50-services"],
  run: async (platform) => {
    const { project, urls } = await prepare(platform);
    try {
      const ratios: number[] = [];
      for (let round = 1; round <= ROUNDS; round++) {
        const script = await byScript(`script ${round}`);
        const ours = await byBerth(platform, project, urls, `round ${round}`);
        if (process.env.BENCH_SHOW) console.log(script, ours);
        ratios.push((ours - DEBOUNCE_MS) / script);
      }
      return [{ name: "roll-50-services", value: median(ratios), unit: "x script", goal: "<= 2" }];
    } finally {
      await platform.call("DELETE", `${project}?confirmImpact=true`);
      while (await anyApp(platform)) await delay(50);
    }
  },
};

/** Deploys the services; returns the path of their project and their URLs. */
async function prepare(platform: Platform): Promise<{ project: string; urls: URL[] }> {
  const { P: project, E } = await newEnvironment(platform, "roll");
  await platform.call("POST", `${project}/variables`, { name: "GREETING", value: "first" });
  const archive = execFileSync("tar", ["-cz", "-C", app, "."]);
  const names = Array.from({ length: SERVICES }, (_, i) => `web-${i}`);
  const urls: URL[] = [];
  const deployNext = async () => {
    for (let name = names.pop(); name; name = names.pop()) {
      const S = `${E}/services/${name}`;
      // The script does not wait until a process has been up for a second either.
      await platform.call("POST", `${E}/services`, { name, type: "web", config: { minReadySeconds: 0 } });
      await deployArchive(platform, S, archive);
      urls.push(new URL(await urlOf(platform, S)));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, deployNext));
  await allAnswer(urls, "first");
  return { project, urls };
}

async function urlOf(platform: Platform, S: string): Promise<string> {
  for (;;) {
    const { url, status } = await platform.call<{ url?: string; status: string }>("GET", S);
    if (status === "failed") throw new Error(`${S} did not deploy`);
    if (url) return url;
    await delay(50);
  }
}

async function byBerth(platform: Platform, project: string, urls: URL[], value: string): Promise<number> {
  const started = performance.now();
  await platform.call("PATCH", `${project}/variables/GREETING`, { value });
  await allAnswer(urls, value);
  return performance.now() - started;
}

async function byScript(value: string): Promise<number> {
  const ports: number[] = [];
  while (ports.length < SERVICES) {
    const port = await freePort();
    if (!ports.includes(port)) ports.push(port);
  }
  const started = performance.now();
  const children = ports.map((port) =>
    spawn(process.execPath, ["server.js"], {
      cwd: app,
      env: { PATH: process.env.PATH, PORT: String(port), GREETING: value },
      stdio: "ignore",
    }),
  );
  await allAnswer(
    ports.map((port) => new URL(`http://127.0.0.1:${port}`)),
    value,
  );
  const taken = performance.now() - started;
  for (const child of children) child.kill("SIGKILL");
  await Promise.all(children.map((child) => child.exitCode ?? child.signalCode ?? once(child, "exit")));
  return taken;
}

async function anyApp(platform: Platform): Promise<boolean> {
  const family = await familyOf(platform.pid);
  const commands = family.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""));
  return (await Promise.all(commands)).some((command) => command.includes("\0server.js"));
}

/** Waits until every URL answers with the value. */
async function allAnswer(urls: URL[], value: string): Promise<void> {
  for (const url of urls) while (!(await greeting(url)).startsWith(`${value}\n`)) await delay(5);
}

function greeting({ host, port }: URL): Promise<string> {
  return new Promise((resolve) => {
    const request = http.get({ host: "127.0.0.1", port, headers: { host } }, async (response) => {
      let body = "";
      for await (const chunk of response.setEncoding("utf8")) body += chunk;
      resolve(body);
    });
    request.on("error", () => resolve(""));
  });
}
