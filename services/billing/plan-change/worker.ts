import { causeOf } from "../../kit/failures.ts";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Running } from "../../kit/process/process.ts";
import { startTask } from "../../kit/tasks/task.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { RESUME_PLAN_CHANGES, toCause } from "../tasks.ts";
import type { MakeChange } from "./make-change.ts";
import { findOpenChange, takePlanChanges } from "./sql.ts";

const BATCH = 20;

type Deps = { pool: Pool; lock: AccountLock; makeChange: MakeChange; log: Logger };

/** Resumes changes of plans that were interrupted: by a process that ended, or because the provider did not answer. */
export function startPlanChanges({ pool, lock, makeChange, log }: Deps): Running {
  async function resumeAll(signal: AbortSignal): Promise<void> {
    for (const { id, accountId, subscriptionId } of await takePlanChanges(pool, BATCH)) {
      if (signal.aborted) return;
      await lock(accountId, () => resume(id, subscriptionId)).catch((error) =>
        log.warn({ subscription: subscriptionId, cause: causeOf(error) }, "a change of plan waits"),
      );
    }
  }

  async function resume(id: string, subscriptionId: string): Promise<void> {
    const open = await findOpenChange(pool, subscriptionId);
    if (open?.id === id) await makeChange(open);
  }

  return startTask(RESUME_PLAN_CHANGES, resumeAll, { log, toLog: toCause });
}
