import { timestampNow } from "@bufbuild/protobuf/wkt";
import {
  ReleaseHealthySchema,
  ReleaseRecoveredSchema,
  ReleaseUnhealthySchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { expireArtifacts } from "../deployments/retention-sql.ts";
import { addWarning, markHealthy } from "../deployments/transitions-sql.ts";
import type { RuntimeStatus } from "../runtime/port.ts";
import { newNotice } from "../terms/notice.ts";
import { passUsage, recordUsage } from "../usage/intervals.ts";
import { recordStatus } from "./sql.ts";

/**
 * Records the status of a service's release: its state, usage, when it was first healthy or why it is not, and
 * emits their events. Records nothing when another process holds the service's lease.
 */
export async function recordReleaseStatus(
  { pool, owner, entitlementsOf }: { pool: Pool; owner: number; entitlementsOf: EntitlementsOf },
  status: RuntimeStatus,
): Promise<void> {
  const { serviceId, version, state, reason } = status;
  const code = reason ?? state;
  await transaction(pool, async (tx) => {
    const before = await recordStatus(tx, owner, status);
    if (!before) return;
    const isCron = before.type === "cron";
    // Its runs are what it uses.
    if (isCron) await passUsage(tx, serviceId, status.usage);
    else await recordUsage(tx, serviceId, status.usage);
    const { accountId } = before;
    const at = timestampNow();
    // Nothing of it has to come up.
    const healthySince = status.healthySince ?? (isCron ? new Date().toISOString() : undefined);
    const firstHealthy = healthySince && (await markHealthy(tx, serviceId, version, healthySince)) > 0;
    if (firstHealthy) {
      await emit(tx, ReleaseHealthySchema, accountId, { accountId, serviceId, version, at });
      await expireArtifacts(tx, entitlementsOf, serviceId);
    }
    if (state === "running" && before.unhealthy) {
      const event = { accountId, serviceId, version, at, firstHealthy: firstHealthy === true };
      await emit(tx, ReleaseRecoveredSchema, accountId, event);
    }
    const warns = isUnhealthy(state) ? reason && reason !== "replica_ended" : reason === "not_answering";
    if (warns) await addWarning(tx, serviceId, version, newNotice("rollout", code, status.message ?? code));
    if (!isUnhealthy(state)) return;
    if (before.state !== state || before.reason !== (reason ?? null))
      await emit(tx, ReleaseUnhealthySchema, accountId, { accountId, serviceId, version, code, at });
  });
}

function isUnhealthy(state: string | null | undefined): boolean {
  return state === "degraded" || state === "crashed";
}
