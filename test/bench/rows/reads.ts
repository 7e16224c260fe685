import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { NODE_FLAGS } from "../../../deploy/local/programs/program-process.ts";
import { type CpuTimes, cpuTimes, perRequest } from "../cpu.ts";
import { sampleVariables } from "../floor.ts";
import { type Load, load } from "../load.ts";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, type Figure, median } from "../row.ts";
import { scratchDatabase } from "../scratch.ts";

const ROUNDS = 5;
const MS = 1_500;
const WARM_MS = 1_000;
const CONNECTIONS = 16;

/** A read, its path below that of the service, and the share of the floor's requests that it shall reach. */
const READS = [
  { name: "resolved-variables", path: "/resolved-variables", goal: ">= 0.45" },
  { name: "resolved-variables-304", path: "/resolved-variables", held: true, goal: ">= 0.45" },
  { name: "variables-list-20", path: "/variables", goal: ">= 0.4" },
  { name: "service-get", path: "", goal: ">= 0.4" },
];

type Side = { origin: string; service: string; token: string; pid: number };
type Sample = { perSecond: number; cpu: CpuTimes };

/**
 * Requests per second of reads through gateway and service, compared with those of the hand-written floor (floor.ts),
 * alternating in one run; beside each, the CPU time per request of every process that took part.
 */
export const reads: Bench = {
  names: READS.map(({ name }) => name),
  run: async (platform) => {
    const berth = { ...(await seed(platform)), token: platform.ownerToken, pid: platform.pid };
    const database = await scratchDatabase(platform);
    const floor = await startFloor(database.url);
    try {
      const figures: Figure[] = [];
      for (const read of READS) figures.push(await compare(read, berth, floor, platform.pid));
      return figures;
    } finally {
      floor.stop();
      await database.drop();
    }
  },
};

async function compare(
  { name, path, held, goal }: (typeof READS)[number],
  berth: Side,
  floor: Side,
  postgres: number,
): Promise<Figure> {
  const [ours, theirs] = await Promise.all([berth, floor].map((side) => loadOf(side, path, held === true)));
  const status = held ? 304 : 200;
  for (const one of [ours!, theirs!]) await load({ ...one, ms: WARM_MS });
  const samples: { ours: Sample; theirs: Sample }[] = [];
  for (let round = 0; round < ROUNDS; round++)
    samples.push({
      theirs: await sample(theirs!, floor.pid, postgres, status),
      ours: await sample(ours!, berth.pid, postgres, status),
    });
  return {
    name,
    value: median(samples.map(({ ours, theirs }) => ours.perSecond / theirs.perSecond)),
    unit: "x floor",
    goal,
    detail: `${describe(samples.map(({ ours }) => ours))}; floor ${describe(samples.map(({ theirs }) => theirs))}`,
  };
}

async function loadOf({ origin, service, token }: Side, path: string, held: boolean): Promise<Load> {
  const authorization = `Bearer ${token}`;
  const base = { origin, path: service + path, connections: CONNECTIONS, ms: MS };
  if (!held) return { ...base, headers: { authorization } };
  const first = await fetch(origin + base.path, { headers: { authorization } });
  return { ...base, headers: { authorization, "if-none-match": first.headers.get("etag") ?? "" } };
}

async function sample(one: Load, pid: number, postgres: number, status: number): Promise<Sample> {
  const read = async () => ({ ...(await cpuTimes(postgres)), ...(await cpuTimes(pid)) });
  const before = await read();
  const { requests, perSecond, statuses } = await load(one);
  const cpu = perRequest(before, await read(), requests);
  if (Object.keys(statuses).join() !== String(status))
    throw new Error(`answers were ${JSON.stringify(statuses)}`);
  return { perSecond, cpu };
}

/** Returns such as `2300/s: gateway 230 µs, variables 510 µs, postgres 110 µs`: the medians. */
function describe(samples: Sample[]): string {
  const parts = new Set(samples.flatMap(({ cpu }) => Object.keys(cpu)));
  const times = [...parts].map((part) => [part, median(samples.map(({ cpu }) => cpu[part] ?? 0))] as const);
  const used = times.filter(([, us]) => us >= 5).map(([part, us]) => `${part} ${Math.round(us)} µs`);
  return `${Math.round(median(samples.map(({ perSecond }) => perSecond)))}/s: ${used.join(", ")}`;
}

async function seed(platform: Platform): Promise<{ origin: string; service: string }> {
  const { P, E } = await newEnvironment(platform, "reads");
  await platform.call("POST", `${E}/services`, { name: "web", type: "web" });
  const S = `${E}/services/web`;
  for (const [base, scope] of [
    [P, "project"],
    [E, "environment"],
    [S, "service"],
  ] as const)
    await platform.call("POST", `${base}/variables/batch`, { set: sampleVariables(scope) });
  return { origin: platform.origin, service: `${new URL(platform.baseUrl).pathname}${S}` };
}

async function startFloor(url: string): Promise<Side & { stop: () => void }> {
  const child = spawn(process.execPath, [...NODE_FLAGS, join(import.meta.dirname, "../floor.ts")], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { PATH: process.env.PATH, DATABASE_URL: url },
  });
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  const floor = JSON.parse(line) as { origin: string; service: string; token: string };
  return { ...floor, pid: child.pid!, stop: () => void child.kill("SIGKILL") };
}
