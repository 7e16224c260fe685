import { DeploymentFailedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { StoredNotice } from "../terms/notice.ts";
import { newNotice } from "../terms/notice.ts";
import { markFailed } from "./transitions-sql.ts";

/** Fails a deployment that has not applied. Returns false when it had ended already. */
export async function failDeployment(
  pool: Pool,
  log: Logger,
  deploymentId: string,
  error: StoredNotice,
): Promise<boolean> {
  const failed = await transaction(pool, (tx) => fail(tx, deploymentId, error));
  const { stage, code } = error;
  if (failed) log.info({ deploymentId, stage, code }, "deployment failed");
  return failed;
}

const STAGES: Record<string, string> = { queued: "queue", building: "build", built: "apply" };

/** Fails a deployment with the code `canceled`. Returns false when it had ended already. */
export function cancelDeployment(tx: Tx, { id, status }: { id: string; status: string }): Promise<boolean> {
  return fail(tx, id, newNotice(STAGES[status] ?? "queue", "canceled", "The deployment was canceled."));
}

async function fail(tx: Tx, deploymentId: string, error: StoredNotice): Promise<boolean> {
  const { stage, code } = error;
  const row = await markFailed(tx, deploymentId, error);
  if (row) await emit(tx, DeploymentFailedSchema, row.accountId, { ...row, deploymentId, stage, code });
  return row !== undefined;
}
