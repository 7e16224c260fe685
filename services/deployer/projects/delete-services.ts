import { ServiceDeletedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { conflict } from "../../kit/rpc/refusals.ts";
import { notifyReconcilers, wakeAwaiting } from "../due/sql.ts";
import { stopUsage } from "../usage/intervals.ts";
import { type DeletionColumn, markServices } from "./deletion-sql.ts";

/** How many live services a refusal lists. */
const MAX_LISTED = 20;

/** What the event of a service says that is deleted by itself. */
export type ServiceNaming = { projectName: string; environmentName: string; byUserId: string };

/**
 * Marks the services of a scope as being deleted, emits their events, and returns how many they are. `alone` names a
 * service that is deleted by itself, not with its environment. Throws 409 impact_confirmation_required
 * when some are live and the impact was not confirmed.
 */
export async function deleteServices(
  tx: Tx,
  column: DeletionColumn,
  id: string,
  confirmed: boolean | undefined,
  path: { accountId: string; projectId: string },
  alone?: ServiceNaming,
): Promise<number> {
  const marked = await markServices(tx, column, id);
  const live = marked.filter((service) => service.live);
  if (live.length > 0 && !confirmed) throw confirmationRequired(live);
  const ids = marked.map((service) => service.id);
  // Usage ends with the request, however long the removal takes.
  await stopUsage(tx, ids);
  await wakeAwaiting(tx, ids);
  for (const { id: serviceId, environmentId, name, type } of marked) {
    const event = { ...path, environmentId, serviceId, name, type, withEnvironment: !alone, ...alone };
    await emit(tx, ServiceDeletedSchema, path.accountId, event);
  }
  await notifyReconcilers(tx);
  return marked.length;
}

function confirmationRequired(live: { id: string; name: string; environmentId: string }[]) {
  const services = live
    .slice(0, MAX_LISTED)
    .map(({ id, name, environmentId }) => ({ id, name, environmentId }));
  const what = live.length === 1 ? "a live service" : `${live.length} live services`;
  const message = `This deletes ${what}. Send confirmImpact: true to confirm.`;
  return conflict("impact_confirmation_required", message, { impact: { services, total: live.length } });
}
