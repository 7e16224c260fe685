import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { sampleVariables } from "../floor.ts";
import { load } from "../load.ts";
import type { Platform } from "../platform.ts";
import { type Bench, median } from "../row.ts";
import { scratchDatabase } from "../scratch.ts";

const ROUNDS = 5;
const MS = 2_500;
const CONNECTIONS = 16;

/**
 * Requests per second of GET resolved-variables (50 entries, 10 sensitive) through gateway and service, compared with
 * those of the hand-written floor, alternating; and of its 304 answer compared with the floor's full answer.
 */
export const resolved: Bench = {
  names: ["resolved-variables", "resolved-variables-304"],
  run: async (platform) => {
    const path = await seed(platform);
    const database = await scratchDatabase(platform);
    const floor = await startFloor(database.url);
    try {
      const authorization = `Bearer ${platform.ownerToken}`;
      const first = await fetch(platform.origin + path, { headers: { authorization } });
      const tag = first.headers.get("etag") ?? "";
      const base = { connections: CONNECTIONS, ms: MS };
      const ours = { ...base, origin: platform.origin, path, headers: { authorization } };
      const cached = { ...ours, headers: { authorization, "if-none-match": tag } };
      const theirs = {
        ...base,
        origin: floor.origin,
        path: floor.path,
        headers: { authorization: `Bearer ${floor.token}` },
      };
      for (const warm of [ours, cached, theirs]) await load({ ...warm, ms: 1_500 });
      const full: number[] = [];
      const notModified: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const reference = await load(theirs);
        const one = await load(ours);
        const two = await load(cached);
        expectOnly(reference.statuses, 200);
        expectOnly(one.statuses, 200);
        expectOnly(two.statuses, 304);
        full.push(one.perSecond / reference.perSecond);
        notModified.push(two.perSecond / reference.perSecond);
      }
      return [
        { name: "resolved-variables", value: median(full), unit: "x floor", goal: ">= 0.9" },
        { name: "resolved-variables-304", value: median(notModified), unit: "x floor", goal: ">= 4" },
      ];
    } finally {
      floor.stop();
      await database.drop();
    }
  },
};

function expectOnly(statuses: Record<string, number>, status: number): void {
  if (Object.keys(statuses).join() !== String(status))
    throw new Error(`answers were ${JSON.stringify(statuses)}`);
}

async function seed(platform: Platform): Promise<string> {
  const account = `/accounts/${platform.accountId}`;
  const project = await platform.call<{ id: string }>("POST", `${account}/projects`, {
    name: `bench-${Date.now() % 1e9}`,
  });
  const P = `${account}/projects/${project.id}`;
  const environment = await platform.call<{ id: string }>("POST", `${P}/environments`, {
    name: "production",
  });
  const E = `${P}/environments/${environment.id}`;
  await platform.call("POST", `${E}/services`, { name: "web", type: "web" });
  const S = `${E}/services/web`;
  for (const [base, scope] of [
    [P, "project"],
    [E, "environment"],
    [S, "service"],
  ] as const)
    await platform.call("POST", `${base}/variables/batch`, { set: sampleVariables(scope) });
  return `${new URL(platform.baseUrl).pathname}${S}/resolved-variables`;
}

async function startFloor(url: string) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "../floor.ts")], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { PATH: process.env.PATH, DATABASE_URL: url },
  });
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  const floor = JSON.parse(line) as { origin: string; path: string; token: string };
  return { ...floor, stop: () => child.kill("SIGKILL") };
}
