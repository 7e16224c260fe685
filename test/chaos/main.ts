import { spawnSync } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { onSmallDisk } from "../../services/kit/testing/small-disk.ts";
import { describe, runModel } from "../model/run.ts";
import { sendWorstBodies } from "./bodies.ts";
import { run } from "./run.ts";
import { findFaults } from "./seeded/find.ts";

const help = `npm run chaos -- [--minutes 10] [--clients 20] [--seed N] [--disk-full SECONDS] [--json FILE]
npm run chaos -- faults [--only NAME] [--clean] [--seed N]
npm run chaos -- model [--schedules 1000000] [--seed N]
npm run chaos -- bodies
npm run chaos -- --only money [--lives 10000] [--seed N]

Runs the platform in a temporary folder, lets clients work on it while its processes are killed, stopped and suspended
and their connections cut, and then checks what must hold whatever happened. For the last quarter the real launcher
runs it, and is killed itself. Clients pause as long as the machine needs. --disk-full fills its disk for that long,
halfway through (Linux). The exit code is 1 when a check fails.

faults: plants one fault after another in the product (seeded-faults.ts), and runs the load and the checks that have to
find it. The exit code is 1 when one is not found. --clean plants none, and then nothing may be found.

model: the deployer alone, on a simulated database, runtime and builder, under that many random schedules.

bodies: the worst requests that a generator finds for every route, and what each costs (Linux).

--only money: that many random lives of an account, two years each, against the simulator of Stripe, and beside each a
book of what its plan promises (test/lives). It names the seed of a life that went wrong: repeat it with --lives 1.`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    schedules: { type: "string", default: "1000000" },
    minutes: { type: "string", default: "10" },
    clients: { type: "string", default: "20" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    "disk-full": { type: "string", default: "0" },
    only: { type: "string" },
    lives: { type: "string", default: "10000" },
    clean: { type: "boolean", default: false },
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
const seed = Number(values.seed);
const diskFullMs = Number(values["disk-full"]) * 1_000;

async function model(): Promise<number> {
  const workers = availableParallelism();
  const summary = await runModel({ schedules: Number(values.schedules), seed: Number(values.seed), workers });
  console.log(describe(summary));
  return summary.failure ? 1 : 0;
}

/** Lives of accounts, as a test that takes its time. */
function money(): number {
  if (!/^[1-9]\d*$/.test(values.lives) || !/^\d+$/.test(values.seed)) {
    console.error("--lives and --seed are whole numbers, and there is at least one life.");
    return 1;
  }
  const env = { ...process.env, BERTH_LIVES: values.lives, BERTH_LIFE: values.seed };
  const vitest = join(import.meta.dirname, "../../node_modules/.bin/vitest");
  const options = { cwd: join(import.meta.dirname, "../.."), env, stdio: "inherit" as const };
  return spawnSync(vitest, ["run", "test/lives"], options).status ?? 1;
}

async function main(): Promise<number> {
  if (positionals.length === 0 && values.only === "money") return money();
  if (positionals[0] === "model") return model();
  if (positionals[0] === "bodies") return (await sendWorstBodies(console.log)) > 0 ? 1 : 0;
  if (positionals[0] === "faults") return (await findFaults({ ...values, seed })) ? 0 : 1;
  const { dir: given, json } = values;
  const [minutes, clients] = [Number(values.minutes), Number(values.clients)];
  if (given !== undefined) {
    const held = await run({ dir: given, seed, minutes, clients, diskFullMs, json });
    // A small disk disappears with this process.
    if (!held && diskFullMs > 0)
      for (const logs of ["former-logs", "logs"])
        await cp(join(given, logs), join(`${given}-logs`, logs), { recursive: true });
    return held ? 0 : 1;
  }
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
  else console.log(`The logs are in ${dir}${diskFullMs > 0 ? "-logs" : ""}.`);
  return status ?? 1;
}

process.exit(await main());
