import type { Pool } from "../../kit/postgres/db.ts";
import { createReadGauge } from "../../kit/telemetry.ts";
import { countWaitingBuilds, oldestWaitingBuild } from "../deployments/sql.ts";
import { msUntilDue } from "../due/sql.ts";

const watchOverdue = createReadGauge({
  name: "berth_services_overdue_seconds",
  help: "How long the service waits that is due longest and that no deployer has taken; the same from all replicas",
});

const watchWaiting = createReadGauge({
  name: "berth_builds_waiting",
  help: "Builds that have not begun; the same from all replicas",
});

const watchOldest = createReadGauge({
  name: "berth_builds_oldest_seconds",
  help: "How long the oldest build waits of the accounts that build nothing meanwhile; the same from all replicas",
});

/** Reports on what waits for a deployer. Each value is read from an index with only what is under way. */
export function watchWaitingWork(pool: Pool): void {
  watchOverdue(async () => Math.max(0, -((await msUntilDue(pool)) ?? 0)) / 1_000);
  watchWaiting(() => countWaitingBuilds(pool));
  watchOldest(() => oldestWaitingBuild(pool));
}
