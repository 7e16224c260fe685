import type { Logger } from "../../kit/log.ts";
import type { Pool, Tx } from "../../kit/postgres/db.ts";
import type { Runtime } from "../runtime/port.ts";
import { whileLeased } from "./lease-lock.ts";
import { findLiveRelease, type ReleaseRow, scaleOf } from "./sql.ts";

export type AdjustDeps = { pool: Pool; runtime: Runtime; log: Logger; owner: number };

/**
 * Brings the live release to its service's replicas and size, or to none while it is suspended, without a new release. Returns `false` when
 * nothing is live or another process has the service.
 */
export async function scaleRelease(deps: AdjustDeps, serviceId: string): Promise<boolean> {
  const live = await findLiveRelease(deps.pool, serviceId);
  if (live) await deps.runtime.learnPlan?.(live.environmentId);
  return adjustLive(deps, serviceId, async (row) => {
    const { version } = row;
    const scale = scaleOf(row);
    await deps.runtime.scale(serviceId, version, scale);
    deps.log.info({ serviceId, version, ...scale }, "scaled");
  });
}

/** Rolls the live release, as users asked for it. Returns `false` as `scaleRelease` does. */
export function rollRelease(deps: AdjustDeps, serviceId: string): Promise<boolean> {
  return adjustLive(deps, serviceId, async ({ version, rolls }) => {
    await deps.runtime.roll(serviceId, version, rolls);
    deps.log.info({ serviceId, version, rolls }, "rolled");
  });
}

function adjustLive(deps: AdjustDeps, serviceId: string, adjust: (live: ReleaseRow) => Promise<void>) {
  return whileLeased(deps, serviceId, async (tx: Tx, { liveVersion }) => {
    const live = await findLiveRelease(tx, serviceId);
    if (!live || live.version !== liveVersion) return false;
    await adjust(live);
    return true;
  });
}
