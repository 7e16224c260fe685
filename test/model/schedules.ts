import { Choices, seedOf, shrink } from "./choices.ts";
import type { Failure, Progress, Task } from "./run.ts";
import { Schedule } from "./schedule/schedule.ts";
import type { Fence } from "./statements/fences.ts";
import { virtualize } from "./world/clock.ts";
import { LeaseConnection } from "./world/lease-connection.ts";
import { Violation } from "./world/world.ts";

virtualize(LeaseConnection);

/** Runs the schedules of a task in this thread, up to the first that breaks a rule. */
export async function runSchedules({ seed, from, to, every, removed, shrinkMs }: Task): Promise<Progress> {
  const fences = new Set<Fence>(removed);
  const progress: Progress = { schedules: 0, steps: 0, cpuSeconds: 0 };
  for (let schedule = from; schedule < to && !progress.failure; schedule += every) {
    const { violation, made, steps } = await attempt(seedOf(seed, schedule), fences);
    progress.schedules++;
    progress.steps += steps;
    if (violation) progress.failure = await explain(schedule, made, violation, { fences, shrinkMs });
  }
  const { user, system } = process.threadCpuUsage();
  progress.cpuSeconds = (user + system) / 1e6;
  return progress;
}

async function attempt(source: number | readonly number[], fences: ReadonlySet<Fence>, traced = false) {
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

async function explain(
  schedule: number,
  made: readonly number[],
  violation: Violation,
  { fences, shrinkMs }: { fences: ReadonlySet<Fence>; shrinkMs: number },
): Promise<Failure> {
  const fails = async (candidate: readonly number[]) =>
    (await attempt(candidate, fences)).violation?.rule === violation.rule;
  const least = await shrink(made, fails, shrinkMs);
  const again = await attempt(least, fences, true);
  const { rule, message } = again.violation ?? violation;
  return { schedule, rule, message, draws: [...least], trace: again.trace ?? [] };
}
