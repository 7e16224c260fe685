import { DeploymentBuildingSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { toPlanAmounts } from "../accounts/plan-amounts.ts";
import * as transitions from "../deployments/transitions-sql.ts";
import { enqueue } from "../due/sql.ts";

export type AdmissionDeps = {
  pool: Pool;
  entitlementsOf: EntitlementsOf;
  /** How many builds run at once in the installation, whichever process began them. */
  buildsAtOnce: number;
};

/**
 * Begins the builds that wait and may run now (docs/deployments.md#builds-at-once): makes their services due, for
 * any process. Returns these services. A build holds its slot while its deployment is `building`, so a process that
 * ends, however it ends, leaves the slot to the one that continues the build.
 */
export async function admitBuilds({ pool, entitlementsOf, buildsAtOnce }: AdmissionDeps): Promise<string[]> {
  const shares = toPlanAmounts(entitlementsOf, (allowed) => Math.min(allowed.buildsAtOnce, buildsAtOnce));
  return transaction(pool, async (tx) => {
    await transitions.lockAdmission(tx);
    const admitted = await transitions.admitBuilds(tx, buildsAtOnce, shares);
    for (const row of admitted) await emit(tx, DeploymentBuildingSchema, row.accountId, row);
    const services = admitted.map(({ serviceId }) => serviceId);
    await enqueue(tx, services);
    return services;
  });
}
