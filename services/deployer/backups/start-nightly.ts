import { newId } from "../../kit/ids.ts";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import type { AddonBackups } from "../addons/port.ts";
import { START_NIGHTLY } from "../tasks.ts";
import { ADDON_TYPES } from "../terms/services.ts";
import { insertNightly, listNightly } from "./sql.ts";

const BATCH = 100;

type NightlyDeps = {
  pool: Pool;
  backups: Pick<AddonBackups, "unsupported">;
  /** How many are kept; with 0 none is made. */
  kept: number;
  log: Logger;
  /** Has due backups made now. */
  wake: () => void;
};

/** Begins the nightly backup of each addon at its time of the night (docs/addons.md#nightly-backups). */
export function startNightly({ pool, backups, kept, log, wake }: NightlyDeps) {
  async function startDue(): Promise<Next> {
    if (kept === 0) return undefined;
    const reasons = await Promise.all(ADDON_TYPES.map((type) => backups.unsupported(type)));
    const types = ADDON_TYPES.filter((_, at) => reasons[at] === undefined);
    if (types.length === 0) return undefined;
    const due = await listNightly(pool, types, BATCH);
    if (due.length === 0) return undefined;
    const begun = await insertNightly(
      pool,
      due.map((one) => ({ ...one, id: newId("bkp") })),
    );
    wake();
    return begun === BATCH ? "more" : undefined;
  }

  return startTask(START_NIGHTLY, startDue, { log });
}
