import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { describe, runModel } from "../../services/deployer/model/run.ts";
import { createRandom } from "../../services/kit/testing/random.ts";
import { emptyDisk, fillDisk, onSmallDisk } from "../../services/kit/testing/small-disk.ts";
import { judge, print } from "../bench/row.ts";
import { sendWorstBodies } from "./bodies.ts";
import { check } from "./checks.ts";
import { createRecord } from "./clients.ts";
import { inflictFaults } from "./faults.ts";
import { startPlatform } from "./platform.ts";
import { prepareShared, work } from "./work.ts";

const help = `npm run chaos -- [--minutes 10] [--clients 20] [--seed N] [--disk-full SECONDS] [--json FILE]
npm run chaos -- model [--schedules 1000000] [--seed N]
npm run chaos -- bodies

Runs the platform in a temporary folder, lets clients work on it while its processes are killed, stopped and suspended
and their connections cut, and then checks what must hold whatever happened. --disk-full fills its disk for that long,
halfway through (Linux). The exit code is 1 when a check fails.

model: the deployer alone, on a simulated database, runtime and builder, under that many random schedules.

bodies: the worst requests that a generator finds for every route, and what each costs (Linux).`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    schedules: { type: "string", default: "1000000" },
    minutes: { type: "string", default: "10" },
    clients: { type: "string", default: "20" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    "disk-full": { type: "string", default: "0" },
    json: { type: "string" },
    help: { type: "boolean", default: false },
    /** The folder, on a small disk: this program sets it for itself. */
    dir: { type: "string" },
  },
});
if (values.help) {
  console.log(help);
  process.exit(0);
}
const DISK_BYTES = 4 * 1024 ** 3;
const diskFullMs = Number(values["disk-full"]) * 1_000;

async function run(dir: string): Promise<boolean> {
  const seed = Number(values.seed);
  const began = Date.now();
  const say = (text: string) =>
    console.log(`${((Date.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}`);
  say(`seed ${seed}, ${values.clients} clients, ${values.minutes} minutes`);
  const platform = await startPlatform(dir);
  const record = createRecord();
  const progress = setInterval(() => say(`answers by status: ${counts(record.statuses)}`), 30_000);
  try {
    const shared = await prepareShared(platform, record);
    const until = Date.now() + Number(values.minutes) * 60_000;
    const random = (n: number) => createRandom(seed * 1_000 + n);
    const [faults] = await Promise.all([
      inflictFaults(platform, random(999), until),
      work(platform, shared, record, { clients: Number(values.clients), random, until }),
      fullDisk(dir, until, say),
    ]);
    say(`faults: ${counts(faults)}; restarts: ${counts(platform.restarts)}`);
    say(
      `answers by status: ${counts(record.statuses)}; ${record.effects.length} keyed effects; ` +
        `${record.history.length} reads and writes of registers`,
    );
    const rows = (await check(platform, shared, record, say)).map(judge);
    print(rows);
    if (values.json) await writeFile(values.json, `${JSON.stringify(rows, null, 2)}\n`);
    return rows.every(({ ok }) => ok);
  } finally {
    clearInterval(progress);
    await platform.stop();
  }
}

const counts = (map: Map<string | number, number>) =>
  [...map]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, n]) => `${name} ${n}`)
    .join(", ");

/** Keeps the disk full for the requested time, halfway through the run. */
async function fullDisk(dir: string, until: number, say: (text: string) => void): Promise<void> {
  if (diskFullMs === 0) return;
  await delay((until - Date.now() - diskFullMs) / 2);
  say("the disk is full");
  for (const end = Date.now() + diskFullMs; Date.now() < end; await delay(250)) fillDisk(dir);
  emptyDisk(dir);
  say("the disk has free space again");
}

async function model(): Promise<number> {
  const workers = availableParallelism();
  const summary = await runModel({ schedules: Number(values.schedules), seed: Number(values.seed), workers });
  console.log(describe(summary));
  return summary.failure ? 1 : 0;
}

async function main(): Promise<number> {
  if (positionals[0] === "model") return model();
  if (positionals[0] === "bodies") return (await sendWorstBodies(console.log)) > 0 ? 1 : 0;
  if (values.dir !== undefined) return (await run(values.dir)) ? 0 : 1;
  const dir = await mkdtemp(join(tmpdir(), "berth-chaos-"));
  const own = [
    ...process.execArgv,
    import.meta.filename,
    ...process.argv.slice(2),
    "--seed",
    values.seed,
    "--dir",
    dir,
  ];
  const command = [process.execPath, ...own];
  // A small disk is mounted only for this run and its platform, and disappears with them.
  const [program, ...args] = diskFullMs > 0 ? [...onSmallDisk(dir, DISK_BYTES), ...command] : command;
  const { status } = spawnSync(program!, args, { stdio: "inherit" });
  if (status === 0) await rm(dir, { recursive: true, force: true });
  else console.log(`The logs are in ${dir}/logs, unless the run was on a small disk.`);
  return status ?? 1;
}

process.exit(await main());
