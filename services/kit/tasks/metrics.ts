import { Counter, Gauge } from "prom-client";
import type { Task } from "./task.ts";

type Label = "task" | "of";
type State = { periodMs: number; startedAt: number; endedWellAt?: number; lastMs?: number };

/** The tasks that this process does, by the labels under which they are reported. */
const running = new Map<string, { labels: Partial<Record<Label, string>>; state: State }>();

const runs = new Counter({
  name: "berth_task_runs_total",
  help: "Runs of background tasks by outcome: done or failed",
  labelNames: ["task", "of", "outcome"],
});

/** Reports a number of each task that is done now, unless it has none yet. */
function gaugeOfTasks(name: string, help: string, toValue: (state: State) => number | undefined): void {
  const gauge: Gauge<Label> = new Gauge({
    name,
    help,
    labelNames: ["task", "of"],
    collect() {
      gauge.reset();
      for (const { labels, state } of running.values()) {
        const ms = toValue(state);
        if (ms !== undefined) gauge.set(labels, ms / 1_000);
      }
    },
  });
}

gaugeOfTasks("berth_task_period_seconds", "The pause between runs", ({ periodMs }) => periodMs);
gaugeOfTasks("berth_task_last_run_seconds", "How long the last run took", ({ lastMs }) => lastMs);
gaugeOfTasks(
  "berth_task_started_timestamp_seconds",
  "Since when this process does the task",
  ({ startedAt }) => startedAt,
);
gaugeOfTasks(
  "berth_task_succeeded_timestamp_seconds",
  "When a run of this process ended well last",
  ({ endedWellAt }) => endedWellAt,
);

/** Reports on a task in the metrics of this process until it is stopped. */
export function reportTask({ name, everyMs }: Task, of: string | undefined) {
  const labels = { task: name, ...(of !== undefined && { of }) };
  const state: State = { periodMs: everyMs, startedAt: Date.now() };
  const entry = { labels, state };
  const key = JSON.stringify(labels);
  running.set(key, entry);
  for (const outcome of ["done", "failed"]) runs.inc({ ...labels, outcome }, 0);
  return {
    ended(outcome: "done" | "failed", ms: number): void {
      runs.inc({ ...labels, outcome });
      state.lastMs = ms;
      if (outcome === "done") state.endedWellAt = Date.now();
    },
    stopped(): void {
      // Tests run several processes in one.
      if (running.get(key) === entry) running.delete(key);
    },
  };
}
