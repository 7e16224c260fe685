import { parentPort, workerData } from "node:worker_threads";
import { startCoverage } from "./coverage.ts";
import { seedFaults } from "./faults/seed.ts";
import type { Task } from "./run.ts";

// The deployer's code is loaded only now: with its faults, and counted from its first branch on.
const task = workerData as Task;
const requireSeeded = seedFaults(task.edits);
const endCoverage = task.coverage ? startCoverage() : undefined;
const { runSchedules } = await import("./schedules.ts");
requireSeeded();
parentPort!.postMessage({ ...(await runSchedules(task)), taken: endCoverage?.() });
