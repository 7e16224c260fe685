import { setTimeout as delay } from "node:timers/promises";
import { findGoProgram } from "../../support/servers/go-program.ts";
import { cpuTimeOf } from "../cpu.ts";
import type { Bench, Figure } from "../row.ts";
import { CHURN_ROWS, measureChurn } from "./churn.ts";
import { countCalls, deploy, timeUntilApplied } from "./deploy.ts";
import { type Deployer, type Installation, startInstallation } from "./deployers.ts";
import { cpuSeconds, memoryOf, timeUntil } from "./figures.ts";

const SIZE = { environments: Number(process.env.BENCH_ENVIRONMENTS ?? 1_000), services: 10 };
/** All that is repeated by the clock happens at least once. */
const IDLE_MS = 60_000;
/** Of one deployer: deployments, pods, services, ingresses, namespaces; pods and sets of addons. */
const WATCHES = 7;

/** Two deployers of a cluster in which 10 000 services run: what they need, at rest and when something happens. */
export const manyServices: Bench = {
  names: [
    ...["start", "memory", "idle-cpu", "idle-calls", "deploy-calls", "take-over"].map(
      (name) => `many-services-${name}`,
    ),
    ...CHURN_ROWS,
  ],
  run: async (platform) => {
    const s3 = await findGoProgram("versitygw", "the rows of many services, whose deployers need an S3");
    if (!s3) return [];
    const installation = await startInstallation(platform, s3, SIZE);
    try {
      return await measure(installation);
    } finally {
      await installation.stop();
    }
  },
};

async function measure(installation: Installation): Promise<Figure[]> {
  const { cluster } = installation;
  const asked = performance.now();
  const leader = await installation.startDeployer(0);
  await timeUntil(async () => (await cluster.state()).watches === WATCHES);
  const readMs = performance.now() - asked;
  const readCpu = await cpuTimeOf(leader.pid);
  const other = await installation.startDeployer(1);
  await atRest(installation);
  const idle = await measureIdle(installation, [leader, other]);
  const deployCalls = await countCalls(installation, () => deploy(installation, leader, "svc_1_1"));
  const churn = await measureChurn(installation, leader);
  const before = [await memoryOf(leader.pid), await memoryOf(other.pid)];
  await leader.kill();
  const idleCpu = await cpuTimeOf(other.pid);
  const takeOverMs = await timeUntilApplied(installation, other, "svc_2_2");
  const takeOverCpu = (await cpuTimeOf(other.pid)) - idleCpu;
  const after = await memoryOf(other.pid);
  const memories = [...before, after];
  const [one, two] = before.map(({ now }) => Math.round(now));
  const peaks = [before[0]!, after].map(({ peak }) => Math.round(peak)).join(" and ");
  const row = (name: string, value: number, unit: string, goal: string, detail?: string): Figure => ({
    name: `many-services-${name}`,
    ...{ value, unit, goal, ...(detail && { detail }) },
  });
  return [
    row("start", readMs / 1000, "s", "<= 30", cpuSeconds(readCpu)),
    row(
      "memory",
      Math.max(...memories.map(({ peak }) => peak)),
      "MiB",
      "<= 512",
      `settled: ${one} MiB of the one that decides, ${two} MiB of the other; at most ${peaks}, a take-over included`,
    ),
    row("idle-cpu", idle.cpuPercent, "% of a core", "<= 10", idle.detail),
    row("idle-calls", idle.callsPerSecond, "calls/s", "<= 50"),
    row("deploy-calls", deployCalls, "calls", "<= 18"),
    row("take-over", takeOverMs / 1000, "s", "<= 15", cpuSeconds(takeOverCpu)),
    ...churn,
  ];
}

/** Waits until all services were compared with the cluster and nothing is due. */
async function atRest({ pool, cluster, size }: Installation): Promise<void> {
  const none = async (sql: string) => (await pool.query(`${sql} limit 1`)).rowCount === 0;
  await timeUntil(() => none("select from usage_intervals where seen_at < now() - interval '1 day'"));
  await timeUntil(() =>
    none("select from work where lease_owner is not null or next_at < now() + interval '10 seconds'"),
  );
  const writes = (await cluster.state(0)).calls.filter(
    ({ verb }) => !["list", "watch", "get"].includes(verb),
  );
  // A tenth of all namespaces are applied again each minute anyway.
  const written = new Set(writes.map(({ namespace, name }) => namespace ?? name));
  if (written.size > Math.ceil(size.environments / 10))
    throw new Error(`a deployer wrote what was there: ${JSON.stringify(writes[0])}`);
}

async function measureIdle({ cluster }: Installation, deployers: Deployer[]) {
  const cpu = () => Promise.all(deployers.map(({ pid }) => cpuTimeOf(pid)));
  const [calls, times, begun] = [(await cluster.state()).count, await cpu(), performance.now()];
  await delay(IDLE_MS);
  const seconds = (performance.now() - begun) / 1000;
  const percents = (await cpu()).map((us, at) => (us - times[at]!) / seconds / 10_000);
  const sum = percents.reduce((total, one) => total + one, 0);
  const [one, other] = percents.map((percent) => percent.toFixed(1));
  return {
    callsPerSecond: ((await cluster.state()).count - calls) / seconds,
    cpuPercent: sum,
    detail: `${one} % of the one that decides, ${other} % of the other`,
  };
}
