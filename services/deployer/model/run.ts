import { once } from "node:events";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import type { Fence } from "./statements/fences.ts";

export type Task = {
  seed: number;
  /** The schedules from, from + every, … below `to`. */
  from: number;
  to: number;
  every: number;
  /** Fences that are left out. */
  removed: Fence[];
  /** How long to make a failing schedule shorter. */
  shrinkMs: number;
};

/** The schedule that broke a rule, made as short as possible. */
export type Failure = { schedule: number; rule: string; message: string; draws: number[]; trace: string[] };
export type Progress = { schedules: number; steps: number; cpuSeconds: number; failure?: Failure };
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
  shrinkMs?: number;
}): Promise<Summary> {
  const {
    schedules,
    seed = Date.now() | 0,
    workers = 1,
    first = 0,
    removed = [],
    shrinkMs = 20_000,
  } = options;
  const begun = performance.now();
  const parts = await Promise.all(
    Array.from({ length: workers }, (_, n) =>
      runShare({ seed, from: first + n, to: first + schedules, every: workers, removed, shrinkMs }),
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
  const { seed, schedules, steps, seconds, cpuSeconds, perMinute, failure } = summary;
  const perCpuMinute = Math.round((schedules / cpuSeconds) * 60);
  const lines = [
    `seed ${seed}: ${schedules} schedules, ${steps} steps in ${seconds.toFixed(1)} s: ${perMinute} schedules a minute, ${perCpuMinute} a minute of one processor`,
  ];
  if (failure)
    lines.push(
      ...failure.trace,
      `schedule ${failure.schedule} breaks a rule: ${failure.message}`,
      `again: node services/deployer/model/run.ts --seed ${seed} --first ${failure.schedule} --schedules 1`,
    );
  return lines.join("\n");
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      schedules: { type: "string", default: "10000" },
      seed: { type: "string" },
      first: { type: "string", default: "0" },
      workers: { type: "string", default: "1" },
      without: { type: "string", multiple: true, default: [] },
    },
  });
  const summary = await runModel({
    schedules: Number(values.schedules),
    seed: values.seed === undefined ? undefined : Number(values.seed),
    first: Number(values.first),
    workers: Number(values.workers),
    removed: values.without as Fence[],
  });
  console.log(describe(summary));
  process.exitCode = summary.failure ? 1 : 0;
}
