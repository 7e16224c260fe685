import { DeploymentFailedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { toStorableText } from "../shared/storable-text.ts";
import type { StoredNotice } from "./sql.ts";
import { markFailed } from "./transitions-sql.ts";

/** A note of now, in a form the database can hold. */
export function newNotice(stage: string, code: string, message: string): StoredNotice {
  return { message: toStorableText(message), at: new Date().toISOString(), stage, code };
}

/** Ends a deployment that has not applied as failed; `false` when it had ended otherwise. */
export async function failDeployment(
  pool: Pool,
  log: Logger,
  deploymentId: string,
  error: StoredNotice,
): Promise<boolean> {
  const moved = await transaction(pool, (tx) => end(tx, deploymentId, error));
  const { stage, code } = error;
  if (moved) log.info({ deploymentId, stage, code }, "deployment failed");
  return moved;
}

const STAGES: Record<string, string> = { queued: "queue", building: "build", built: "apply" };

/** Ends a deployment because a user does not want it any more; `false` when it had ended already. */
export function cancelDeployment(tx: Tx, { id, status }: { id: string; status: string }): Promise<boolean> {
  return end(tx, id, newNotice(STAGES[status] ?? "queue", "canceled", "It was canceled."));
}

async function end(tx: Tx, deploymentId: string, error: StoredNotice): Promise<boolean> {
  const { stage, code } = error;
  const row = await markFailed(tx, deploymentId, error);
  if (row) await emit(tx, DeploymentFailedSchema, row.accountId, { ...row, deploymentId, stage, code });
  return row !== undefined;
}
