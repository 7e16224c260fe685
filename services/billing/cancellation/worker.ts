import { causeOf } from "../../kit/failures.ts";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Running } from "../../kit/process/process.ts";
import { startTask } from "../../kit/tasks/task.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { RESUME_CANCELLATIONS, toCause } from "../tasks.ts";
import { findCancellation, takeCancellations } from "./sql.ts";
import type { ResumeCancellation } from "./steps/resume-cancellation.ts";

const BATCH = 20;

type Deps = { pool: Pool; lock: AccountLock; resumeCancellation: ResumeCancellation; log: Logger };

/** Resumes cancellations that were interrupted: by a process that ended, or because the provider did not answer. */
export function startCancellations({ pool, lock, resumeCancellation, log }: Deps): Running {
  async function resumeAll(signal: AbortSignal): Promise<void> {
    for (const { accountId, subscriptionId } of await takeCancellations(pool, BATCH)) {
      if (signal.aborted) return;
      await lock(accountId, () => resume(subscriptionId)).catch((error) =>
        log.warn({ subscription: subscriptionId, cause: causeOf(error) }, "a cancellation waits"),
      );
    }
  }

  async function resume(subscriptionId: string): Promise<void> {
    const cancellation = await findCancellation(pool, subscriptionId);
    if (cancellation) await resumeCancellation(cancellation);
  }

  return startTask(RESUME_CANCELLATIONS, resumeAll, { log, toLog: toCause });
}
