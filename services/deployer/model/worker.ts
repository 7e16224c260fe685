import { parentPort, workerData } from "node:worker_threads";
import { Choices, seedOf, shrink } from "./choices.ts";
import type { Failure, Progress, Task } from "./run.ts";
import { Schedule } from "./schedule/schedule.ts";
import type { Fence } from "./statements/fences.ts";
import { virtualize } from "./world/clock.ts";
import { LeaseConnection } from "./world/lease-connection.ts";
import { Violation } from "./world/world.ts";

virtualize(LeaseConnection);
const { seed, from, to, every, removed, shrinkMs } = workerData as Task;
const fences = new Set<Fence>(removed);

async function attempt(source: number | readonly number[], traced = false) {
  const choices = new Choices(source);
  const schedule = new Schedule(choices, fences, traced);
  const violation = await schedule.run().then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof Violation) return error;
      throw error;
    },
  );
  const { operations, trace } = schedule.world;
  return { violation, made: choices.made, steps: operations.count, trace };
}

async function explain(schedule: number, made: readonly number[], violation: Violation): Promise<Failure> {
  const fails = async (candidate: readonly number[]) =>
    (await attempt(candidate)).violation?.rule === violation.rule;
  const least = await shrink(made, fails, shrinkMs);
  const again = await attempt(least, true);
  const { rule, message } = again.violation ?? violation;
  return { schedule, rule, message, draws: [...least], trace: again.trace ?? [] };
}

const progress: Progress = { schedules: 0, steps: 0, cpuSeconds: 0 };
for (let schedule = from; schedule < to; schedule += every) {
  const { violation, made, steps } = await attempt(seedOf(seed, schedule));
  progress.schedules++;
  progress.steps += steps;
  if (violation) {
    progress.failure = await explain(schedule, made, violation);
    break;
  }
}
const { user, system } = process.threadCpuUsage();
progress.cpuSeconds = (user + system) / 1e6;
parentPort!.postMessage(progress);
