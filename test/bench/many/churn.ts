import { setTimeout as delay } from "node:timers/promises";
import { release } from "../../../services/deployer/runtime/kubernetes/observe/testing.ts";
import { cpuTimeOf } from "../cpu.ts";
import type { Figure } from "../row.ts";
import { timeUntilApplied } from "./deploy.ts";
import type { Deployer, Installation } from "./deployers.ts";
import { memoryOf, pathOf, timeUntil } from "./figures.ts";

/** 1 % of 10 000 in a minute, as otherwise in an hour: what one restart takes can be told from what is idle. */
const RESTARTED = 0.01;
const RESTARTS_MS = 60_000;
/** How often it is looked whether all is well. */
const LOOK_MS = 250;
/** For so long all has to be well: a deployer that is behind does not know yet what is not. */
const QUIET_MS = 3_000;

/** The variables with which all services run at first. */
const { revision: REVISION } = release;

const ROWS = {
  "restart-cpu": { unit: "ms each", goal: "<= 100" },
  "restart-calls": { unit: "calls each", goal: "<= 20" },
  "node-lost": { unit: "s", goal: "<= 30" },
  "node-lost-calls": { unit: "calls a pod", goal: "<= 20" },
  roll: { unit: "s", goal: "<= 120" },
  "roll-cpu": { unit: "ms each", goal: "<= 100" },
  "roll-calls": { unit: "calls each", goal: "<= 25" },
  "roll-deploy": { unit: "s", goal: "<= 15" },
  "churn-memory": { unit: "MiB", goal: "<= 512" },
} as const;
type Name = keyof typeof ROWS;

export const CHURN_ROWS = Object.keys(ROWS).map((name) => `many-services-${name}`);

const row = (name: Name, value: number, detail?: string): Figure => ({
  name: `many-services-${name}`,
  value,
  ...ROWS[name],
  ...(detail && { detail }),
});

/** Returns what the deployer that decides needs for what happens every day where so many services run. */
export async function measureChurn(installation: Installation, leader: Deployer): Promise<Figure[]> {
  const before = await memoryOf(leader.pid);
  const restarts = await measureRestarts(installation, leader);
  const lost = await measureLostNode(installation, leader);
  const roll = await measureRoll(installation, leader);
  const after = await memoryOf(leader.pid);
  const detail = `${Math.round(before.now)} MiB before, ${Math.round(after.now)} MiB after`;
  return [...restarts, ...lost, ...roll, row("churn-memory", after.peak, detail)];
}

type Used = { ms: number; cpuMs: number; calls: number };

/** Returns the time, the CPU time of a deployer and the calls that it all takes until all is well again. */
async function use<T>(
  installation: Installation,
  deployer: Deployer,
  work: () => Promise<T>,
): Promise<Used & { result: T }> {
  const { cluster } = installation;
  const [cpu, { count }, begun] = [await cpuTimeOf(deployer.pid), await cluster.state(), performance.now()];
  const result = await work();
  const quiet = await untilWell(installation);
  const ms = performance.now() - begun - quiet;
  const { calls } = await cluster.state(count);
  return { result, ms, cpuMs: ((await cpuTimeOf(deployer.pid)) - cpu) / 1_000, calls: calls.length };
}

async function measureRestarts(installation: Installation, leader: Deployer): Promise<Figure[]> {
  const { environments, services } = installation.size;
  const pods = Math.round(environments * services * RESTARTED);
  const idle = await use(installation, leader, () => delay(RESTARTS_MS));
  const { ms, cpuMs, calls } = await use(installation, leader, () =>
    installation.cluster.restart(pods, RESTARTS_MS / pods),
  );
  const each = (all: number, other: number) => (all - (other * ms) / idle.ms) / pods;
  return [
    row("restart-cpu", each(cpuMs, idle.cpuMs), `${pods} restarts in ${Math.round(ms / 1_000)} s`),
    row("restart-calls", each(calls, idle.calls)),
  ];
}

async function measureLostNode(installation: Installation, leader: Deployer): Promise<Figure[]> {
  let replacedMs = 0;
  const { result, ms, cpuMs, calls } = await use(installation, leader, async () => {
    const begun = performance.now();
    const { pods } = await installation.cluster.loseNode();
    replacedMs = performance.now() - begun;
    return pods;
  });
  const seconds = (time: number) => (time / 1_000).toFixed(1);
  const detail = `${result} pods, the last of which was ready elsewhere after ${seconds(replacedMs)} s; ${seconds(cpuMs)} s of CPU time`;
  return [row("node-lost", ms / 1_000, detail), row("node-lost-calls", calls / result)];
}

/** The project is the first one; a service of the last one is deployed meanwhile. */
async function measureRoll(installation: Installation, leader: Deployer): Promise<Figure[]> {
  const { pool, size } = installation;
  const { accountId, projectId } = pathOf("svc_0_0");
  const rolled = async () => {
    const { rows } = await pool.query(
      `select count(*)::int as services, count(*) filter (where variables_revision > $2)::int as begun
       from services where project_id = $1 and type = 'web'`,
      [projectId, REVISION],
    );
    return rows[0] as { services: number; begun: number };
  };
  const { services } = await rolled();
  const { ms, cpuMs, calls, result } = await use(installation, leader, async () => {
    await installation.setVariable({ accountId, projectId }, "GREETING", "hello");
    await timeUntil(async () => (await rolled()).begun > 0, LOOK_MS);
    const deployMs = await timeUntilApplied(installation, leader, `svc_${size.environments - 1}_3`);
    await timeUntil(async () => (await rolled()).begun === services, LOOK_MS);
    return deployMs;
  });
  const detail = `${services} services, whose new pods count as available 12 s after they were applied`;
  return [
    row("roll", ms / 1_000, detail),
    row("roll-cpu", cpuMs / services),
    row("roll-calls", calls / services),
    row("roll-deploy", result / 1_000),
  ];
}

/** Waits until everything runs, no pod comes or goes, and nothing is due for a while; returns how long that was. */
async function untilWell({ pool, cluster }: Installation): Promise<number> {
  let since: number | undefined;
  await timeUntil(async () => {
    const { rows } = await pool.query(
      `select (select count(*) from services where runtime_state <> 'running')
         + (select count(*) from work where lease_owner is not null or next_at < now() + interval '10 seconds') as open`,
    );
    const isWell = Number(rows[0].open) + (await cluster.state()).moving === 0;
    since = isWell ? (since ?? performance.now()) : undefined;
    return since !== undefined && performance.now() - since > QUIET_MS;
  }, LOOK_MS);
  return performance.now() - since!;
}
