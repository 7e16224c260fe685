import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import type { ObjectStore } from "../store/port.ts";
import { SWEEP_BACKUPS } from "../tasks.ts";
import { expireKept } from "./kept-sql.ts";
import { sweepUploads } from "./uploads/uploads.ts";

const BATCH = 100;

type SweepDeps = {
  pool: Pool;
  store: ObjectStore;
  log: Logger;
  /** Has backups removed now that are marked. */
  wake: () => void;
};

/**
 * Removes the backups of deleted addons whose time is over (docs/addons.md#deleted-addons), and uploads of which no backup was
 * made (docs/addons.md#uploads).
 */
export function startSweepingBackups({ pool, store, log, wake }: SweepDeps) {
  async function sweep(): Promise<Next> {
    const expired = await transaction(pool, (tx) => expireKept(tx, BATCH));
    if (expired > 0) wake();
    await sweepUploads({ pool, store });
    return expired === BATCH ? "more" : undefined;
  }

  return startTask(SWEEP_BACKUPS, sweep, { log });
}
