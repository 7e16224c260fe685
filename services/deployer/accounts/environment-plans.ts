import type { Entitlements, EntitlementsOf, Quotas } from "../../kit/plans.ts";
import type { Db } from "../../kit/postgres/db.ts";
import { sizes } from "../../kit/sizes.ts";
import { DEFAULT_STORAGE, type EnvironmentPlan, type EnvironmentPlans } from "../terms/environment-plan.ts";
import { ADDON_TYPES } from "../terms/services.ts";
import { type EnvironmentUse, listEnvironmentUse } from "./sql.ts";

/** Types of services that run deployments. */
const DEPLOYABLE = 2;

/**
 * Returns what plans allow in environments. An account that kept more of something than its plan allows is not limited in
 * that: it would lose a pod with the node that it is on.
 */
export function environmentPlans(db: Db, entitlementsOf: EntitlementsOf): EnvironmentPlans {
  return async (ids) => {
    const rows = await listEnvironmentUse(db, ids);
    return new Map(rows.map((row) => [row.environmentId, toPlan(entitlementsOf(row.tier), row)]));
  };
}

function toPlan({ quotas, volumes, openPorts }: Entitlements, used: EnvironmentUse): EnvironmentPlan {
  return {
    ...(quotas && isWithin(quotas, used) && { most: mostOf(quotas) }),
    ...(Number.isFinite(volumes) && used.addons <= volumes && { volumes }),
    openPorts,
  };
}

function isWithin({ servicesPerType, replicas, size }: Quotas, used: EnvironmentUse): boolean {
  return used.servicesOfAType <= servicesPerType && used.replicas <= replicas && used.cpu <= sizes[size].cpu;
}

/** Returns what all services of an account need at most, wherever they are. */
function mostOf({ servicesPerType, replicas, size }: Quotas): EnvironmentPlan["most"] {
  const [apps, addons] = [servicesPerType * DEPLOYABLE * replicas, servicesPerType * ADDON_TYPES.length];
  const pods = apps + addons;
  const { cpu, memory, storage } = sizes[size];
  return {
    pods,
    cpu: pods * cpu,
    memory: pods * memory,
    storage: apps * storage + addons * DEFAULT_STORAGE,
  };
}
