import { every } from "../../kit/every.ts";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { alertSpend } from "./alerts/alerts.ts";
import { freezePeriods } from "./closing/freeze.ts";
import type { TierOf } from "./read-usage.ts";

type Deps = { pool: Pool; log: Logger; tierOf: TierOf; now: () => number };

const TICK_MS = 1_000;

/** Freezes periods that are over and looks for spend alerts, every second, until it is stopped. */
export function startUsageTasks(deps: Deps) {
  let stopping = false;
  const stopped = () => stopping;
  const run = (what: string, work: () => Promise<void>) =>
    every(TICK_MS, work, {
      failed: (error) => deps.log.warn({ err: error }, `${what} failed`),
      atOnce: true,
    });
  const tasks = [
    run("freezing periods", () => freezePeriods(deps, stopped)),
    run("looking for spend alerts", () => alertSpend(deps, stopped)),
  ];
  return {
    stop: async () => {
      stopping = true;
      await Promise.all(tasks.map((task) => task.stop()));
    },
  };
}
