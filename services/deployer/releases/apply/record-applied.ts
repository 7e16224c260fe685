import { timestampNow } from "@bufbuild/protobuf/wkt";
import {
  DeploymentAppliedSchema,
  ReleaseUnhealthySchema,
} from "../../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { ReleaseVariables } from "../../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { emit } from "../../../kit/events/outbox.ts";
import type { Logger } from "../../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../../kit/postgres/db.ts";
import { failDeployment } from "../../deployments/fail-deployment.ts";
import { addWarning, setWarnings } from "../../deployments/transitions-sql.ts";
import { sealDigests } from "../../deployments/variable-digests.ts";
import type { Secrets } from "../../secrets.ts";
import { newNotice } from "../../terms/notice.ts";
import type { RuntimeRefusal } from "../../terms/runtime-refusal.ts";
import * as sql from "../sql.ts";
import type { ApplyMode } from "./apply-decision.ts";
import { emitUnresolved, recordUnresolved, toWarnings } from "./dangling.ts";

/** A release with its variables and their revision. */
export type PreparedRelease = { row: sql.ReleaseRow; variables: ReleaseVariables; revision: number };

/**
 * Records the release that is about to run. Its statements are in flight at once: the service's lock is held for one round
 * trip instead of one for each.
 */
export async function recordApplied(
  tx: Tx,
  secrets: Secrets,
  mode: ApplyMode,
  { row, variables, revision }: PreparedRelease,
): Promise<void> {
  const { accountId, serviceId, deploymentId, version } = row;
  const release = { ...row, revision };
  const event = { accountId, serviceId, deploymentId, version };
  const warnings = toWarnings(variables);
  const warns = row.hasVariableWarnings || warnings.length > 0;
  const [unresolved] = await Promise.all([
    recordUnresolved(tx, serviceId, variables),
    mode === "deploy" && emit(tx, DeploymentAppliedSchema, accountId, event),
    sql.recordRelease(tx, release, sealDigests(secrets, serviceId, variables.data)),
    warns && setWarnings(tx, deploymentId, "resolve", warnings),
  ]);
  await emitUnresolved(tx, release, variables, unresolved);
}

/**
 * Records that a release cannot run: a deployment fails; of the live release it is recorded, and said once. Returns
 * whether the service has to be planned again at once.
 */
export async function recordRefused(
  { pool, log }: { pool: Pool; log: Logger },
  mode: ApplyMode,
  { serviceId, deploymentId, version }: sql.ReleaseRow,
  { code, message }: RuntimeRefusal,
): Promise<boolean> {
  if (mode === "deploy") {
    await failDeployment(pool, log, deploymentId, newNotice("apply", code, message));
    return true;
  }
  log.warn({ deploymentId, code }, "the live release cannot be applied again");
  await transaction(pool, async (tx) => {
    const recorded = await sql.recordUnappliable(tx, serviceId, message);
    if (!recorded) return;
    await addWarning(tx, serviceId, version, newNotice("rollout", code, message));
    const { accountId } = recorded;
    const event = { accountId, serviceId, version, code, at: timestampNow() };
    await emit(tx, ReleaseUnhealthySchema, accountId, event);
  });
  return false;
}
