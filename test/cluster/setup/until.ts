import { type RunnerTask, type RunnerTestFile, TestRunner } from "vitest";

/** Leaves out, and says so, each file whose turn comes after BERTH_CLUSTER_UNTIL (seconds since 1970), if that is set. */
export default class Until extends TestRunner {
  async onCollected(files: RunnerTestFile[]): Promise<void> {
    const until = process.env.BERTH_CLUSTER_UNTIL;
    if (!until || Date.now() < Number(until) * 1000) return;
    for (const file of files) {
      console.log(`skipped: ${file.name}: the time for tests on a cluster was over before its turn`);
      skip(file);
    }
  }
}

function skip(task: RunnerTask): void {
  task.mode = "skip";
  if ("tasks" in task) task.tasks.forEach(skip);
}
