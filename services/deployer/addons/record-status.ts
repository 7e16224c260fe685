import { AddonFailedOverSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { recordUsage } from "../usage/intervals.ts";
import type { AddonStatus } from "./port.ts";
import { recordAddon, takeOver } from "./sql.ts";

/**
 * Records the status of an addon: its state, usage, and which of its servers takes writes; announces when that has changed,
 * whatever made it necessary (docs/addons.md#standbys). Records nothing when another process holds the addon's lease.
 */
export async function recordAddonStatus(
  { pool, owner }: { pool: Pool; owner: number },
  status: AddonStatus,
): Promise<void> {
  const { serviceId, usage, primary } = status;
  await transaction(pool, async (tx) => {
    if (!(await recordAddon(tx, owner, serviceId, status))) return;
    await recordUsage(tx, serviceId, usage);
    const takenOver = primary === undefined ? undefined : await takeOver(tx, serviceId, primary);
    if (takenOver) await emit(tx, AddonFailedOverSchema, takenOver.accountId, { ...takenOver, serviceId });
  });
}
