import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { findGoProgram } from "../../support/servers/go-program.ts";
import { timeUntil } from "../cluster/cluster.ts";
import { cpuTimeOf } from "../cpu.ts";
import type { Bench, Figure } from "../row.ts";
import { type Deployer, type Installation, startInstallation } from "./deployers.ts";

const SIZE = { environments: 1_000, services: 10 };
/** All that is repeated by the clock happens at least once. */
const IDLE_MS = 60_000;
/** Of one deployer: deployments, pods, services, ingresses, namespaces; pods and sets of addons. */
const WATCHES = 7;

/** Two deployers of a cluster in which 10 000 services run: what they need, at rest and when something happens. */
export const manyServices: Bench = {
  names: ["start", "memory", "idle-cpu", "idle-calls", "deploy-calls", "take-over"].map(
    (name) => `many-services-${name}`,
  ),
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
    row("deploy-calls", deployCalls, "calls", "<= 25"),
    row("take-over", takeOverMs / 1000, "s", "<= 15", cpuSeconds(takeOverCpu)),
  ];
}

const cpuSeconds = (us: number) => `${(us / 1e6).toFixed(1)} s of CPU time`;

/** Waits until all services were compared with the cluster and nothing is due. */
async function atRest({ pool, cluster }: Installation): Promise<void> {
  const none = async (sql: string) => (await pool.query(`${sql} limit 1`)).rowCount === 0;
  await timeUntil(() => none("select from usage_intervals where seen_at < now() - interval '1 day'"));
  await timeUntil(() =>
    none("select from work where lease_owner is not null or next_at < now() + interval '10 seconds'"),
  );
  const written = (await cluster.state()).calls.filter(
    ({ verb }) => !["list", "watch", "get"].includes(verb),
  );
  if (written.length > 0) throw new Error(`a deployer wrote what was there: ${JSON.stringify(written[0])}`);
}

async function measureIdle({ cluster }: Installation, deployers: Deployer[]) {
  const cpu = () => Promise.all(deployers.map(({ pid }) => cpuTimeOf(pid)));
  const [calls, times, begun] = [(await cluster.state()).calls.length, await cpu(), performance.now()];
  await delay(IDLE_MS);
  const seconds = (performance.now() - begun) / 1000;
  const percents = (await cpu()).map((us, at) => (us - times[at]!) / seconds / 10_000);
  const sum = percents.reduce((total, one) => total + one, 0);
  const [one, other] = percents.map((percent) => percent.toFixed(1));
  return {
    callsPerSecond: ((await cluster.state()).calls.length - calls) / seconds,
    cpuPercent: sum,
    detail: `${one} % of the one that decides, ${other} % of the other`,
  };
}

/** Returns how many calls in the namespace of apps and in Berth's own were made meanwhile. */
async function countCalls({ cluster }: Installation, work: () => Promise<string>): Promise<number> {
  const before = (await cluster.state()).calls.length;
  const environment = await work();
  const namespaces = [`many-${environment.replace("_", "-")}`, "many-home"];
  const made = (await cluster.state()).calls.slice(before);
  return made.filter(({ namespace = "", name = "" }) =>
    [namespace, name].some((one) => namespaces.includes(one)),
  ).length;
}

/** Deploys a service, waits until its release is healthy and nothing is left to do, and returns its environment. */
async function deploy({ pool }: Installation, deployer: Deployer, serviceId: string): Promise<string> {
  const path = pathOf(serviceId);
  await deployer.deploy(path, "example.test/web:3");
  await timeUntil(async () => {
    const { rowCount } = await pool.query(
      `select from deployments d join work w using (service_id) where service_id = $1 and version = 3
         and healthy_at is not null and lease_owner is null and next_at is null`,
      [serviceId],
    );
    return rowCount === 1;
  });
  return path.environmentId;
}

/** Returns how long it takes until a deployment is applied that is asked for now. */
async function timeUntilApplied(
  { pool }: Installation,
  deployer: Deployer,
  serviceId: string,
): Promise<number> {
  const begun = performance.now();
  await deployer.deploy(pathOf(serviceId), "example.test/web:3");
  await timeUntil(async () => {
    const { rowCount } = await pool.query(
      "select from deployments where service_id = $1 and version = 3 and status = 'applied'",
      [serviceId],
    );
    return rowCount === 1;
  });
  return performance.now() - begun;
}

/** Returns the path of one of the services that run. */
function pathOf(serviceId: string) {
  const [, environment, service] = serviceId.split("_");
  const environmentId = `env_${environment}`;
  return { accountId: "acc_1", projectId: "prj_1", environmentId, service: `web${service}` };
}

/** Returns the resident memory of a process in MiB: now, and the most that it ever had. */
async function memoryOf(pid: number): Promise<{ now: number; peak: number }> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1]) / 1024;
  return { now: read("VmRSS"), peak: read("VmHWM") };
}
