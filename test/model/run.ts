import { once } from "node:events";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { addCounts, type Counts, describeCoverage } from "./coverage.ts";
import { describeFinding, findFaults, isAsExpected } from "./faults/find.ts";
import { FAULTS } from "./faults/list.ts";
import type { Edit } from "./faults/seed.ts";
import type { Fence } from "./statements/fences.ts";

export type Task = {
  seed: number;
  /** The schedules from, from + every, … below `to`. */
  from: number;
  to: number;
  every: number;
  /** Fences that are left out. */
  removed: Fence[];
  /** Changes of the deployer's code. */
  edits: Edit[];
  /** How long to make a failing schedule shorter. */
  shrinkMs: number;
  /** Whether to count the branches that are taken. */
  coverage: boolean;
};

/** The schedule that broke a rule, made as short as possible. */
export type Failure = { schedule: number; rule: string; message: string; draws: number[]; trace: string[] };
export type Progress = {
  schedules: number;
  steps: number;
  cpuSeconds: number;
  failure?: Failure;
  taken?: Counts;
};
export type Summary = Progress & { seed: number; seconds: number; perMinute: number };

const SCHEDULES_PER_THREAD = 20_000;

/**
 * Runs that many random schedules of the deployer (README.md), up to the first that breaks a rule. The same seed gives
 * the same schedules, whatever the number of workers; `first` is the number of the first.
 */
export async function runModel(options: {
  schedules: number;
  seed?: number;
  workers?: number;
  first?: number;
  removed?: Fence[];
  edits?: Edit[];
  shrinkMs?: number;
  coverage?: boolean;
}): Promise<Summary> {
  const {
    schedules,
    seed = Date.now() | 0,
    workers = 1,
    first = 0,
    removed = [],
    edits = [],
    shrinkMs = 20_000,
    coverage = false,
  } = options;
  const begun = performance.now();
  const parts = await Promise.all(
    Array.from({ length: workers }, (_, n) =>
      runShare({
        seed,
        from: first + n,
        to: first + schedules,
        every: workers,
        removed,
        edits,
        shrinkMs,
        coverage,
      }),
    ),
  );
  const seconds = (performance.now() - begun) / 1000;
  const done = parts.reduce((sum, part) => sum + part.schedules, 0);
  const failures = parts.flatMap(({ failure }) => failure ?? []);
  return {
    seed,
    schedules: done,
    steps: parts.reduce((sum, part) => sum + part.steps, 0),
    cpuSeconds: parts.reduce((sum, part) => sum + part.cpuSeconds, 0),
    seconds,
    perMinute: Math.round((done / seconds) * 60),
    taken: parts.reduce((sum: Counts | undefined, part) => addCounts(sum, part.taken), undefined),
    failure: failures.sort((one, other) => one.schedule - other.schedule)[0],
  };
}

/** Runs a worker's share of the schedules in one thread after another, which frees what each of them keeps. */
async function runShare(task: Task): Promise<Progress> {
  const sum: Progress = { schedules: 0, steps: 0, cpuSeconds: 0 };
  const stride = SCHEDULES_PER_THREAD * task.every;
  for (let from = task.from; from < task.to && !sum.failure; from += stride) {
    const part = await runPart({ ...task, from, to: Math.min(from + stride, task.to) });
    sum.schedules += part.schedules;
    sum.steps += part.steps;
    sum.cpuSeconds += part.cpuSeconds;
    sum.failure = part.failure;
    sum.taken = addCounts(sum.taken, part.taken);
  }
  return sum;
}

async function runPart(task: Task): Promise<Progress> {
  const worker = new Worker(new URL("./worker.ts", import.meta.url), { workerData: task });
  const [progress] = (await once(worker, "message")) as [Progress];
  await worker.terminate();
  return progress;
}

/** Returns a summary for people, with the failing schedule step by step if there is one. */
export function describe(summary: Summary): string {
  const { seed, schedules, steps, seconds, cpuSeconds, perMinute, failure, taken } = summary;
  const perCpuMinute = Math.round((schedules / cpuSeconds) * 60);
  const lines = [
    `seed ${seed}: ${schedules} schedules, ${steps} steps in ${seconds.toFixed(1)} s: ${perMinute} schedules a minute, ${perCpuMinute} a minute of one processor`,
  ];
  if (taken) lines.push(describeCoverage(taken));
  if (failure)
    lines.push(
      ...failure.trace,
      `schedule ${failure.schedule} breaks a rule: ${failure.message}`,
      `again: node test/model/run.ts --seed ${seed} --first ${failure.schedule} --schedules 1`,
    );
  return lines.join("\n");
}

/** Runs the faults whose name has this text, and prints what was found; returns the exit code. */
async function printFaults(only: string, options: { schedules: number; seed: number; workers: number }) {
  const faults = FAULTS.filter(({ name }) => name.includes(only));
  const findings = await findFaults(faults, options, (one) => console.log(describeFinding(one)));
  const wrong = findings.filter((one) => !isAsExpected(one));
  console.log(
    `seed ${options.seed}: ${findings.length - wrong.length} of ${findings.length} faults as expected`,
  );
  return findings.length > 0 && wrong.length === 0 ? 0 : 1;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      schedules: { type: "string" },
      seed: { type: "string" },
      first: { type: "string", default: "0" },
      workers: { type: "string", default: "1" },
      without: { type: "string", multiple: true, default: [] },
      coverage: { type: "boolean", default: false },
      faults: { type: "boolean", default: false },
      only: { type: "string", default: "" },
    },
  });
  const seed = Number(values.seed ?? Date.now() % 1_000_000);
  const workers = Number(values.workers);
  if (values.faults) {
    const schedules = Number(values.schedules ?? 100_000);
    process.exitCode = await printFaults(values.only, { schedules, seed, workers });
  } else {
    const summary = await runModel({
      ...{ schedules: Number(values.schedules ?? 10_000), seed, workers },
      first: Number(values.first),
      removed: values.without as Fence[],
      coverage: values.coverage,
    });
    console.log(describe(summary));
    process.exitCode = summary.failure ? 1 : 0;
  }
}
