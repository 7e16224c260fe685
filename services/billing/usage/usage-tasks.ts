import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { startTask } from "../../kit/tasks/task.ts";
import { ALERT_SPEND, FREEZE_PERIODS } from "../tasks.ts";
import { alertSpend } from "./alerts/alerts.ts";
import { freezePeriods } from "./closing/freeze.ts";
import type { TierOf } from "./read-usage.ts";

type Deps = {
  pool: Pool;
  log: Logger;
  tierOf: TierOf;
  now: () => number;
  /** Whether the quotas of plans apply. */
  quotas: boolean;
};

/** Freezes periods that are over and looks for spend alerts, until it is stopped. */
export function startUsageTasks(deps: Deps) {
  const tasks = [
    startTask(FREEZE_PERIODS, (signal) => freezePeriods(deps, signal), deps),
    startTask(ALERT_SPEND, (signal) => alertSpend(deps, signal), deps),
  ];
  return {
    stop: async () => {
      await Promise.all(tasks.map((task) => task.stop()));
    },
  };
}
