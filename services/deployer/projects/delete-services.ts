import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { ServiceDeletedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emitAll, eventOf } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { conflict } from "../../kit/rpc/refusals.ts";
import { notifyReconcilers, wakeAwaiting } from "../due/sql.ts";
import { isDeployable } from "../terms/services.ts";
import { stopUsage } from "../usage/intervals.ts";
import { type DeletionColumn, keepNewestBackups, markServices } from "./deletion-sql.ts";

/** How many live services a refusal lists. */
const MAX_LISTED = 20;

/** What the event of a service says that is deleted by itself. */
export type ServiceNaming = { projectName: string; environmentName: string; byUserId: string };

/**
 * Marks the services of these scopes as being deleted, emits their events, and returns them. The newest backup of
 * each addon is kept for `backupDays` (docs/addons.md#deleted-addons). `alone` names a service that is deleted by itself, not
 * with its environment. Throws 409 impact_confirmation_required when some are live and the impact was not confirmed.
 */
export async function deleteServices(
  tx: Tx,
  column: DeletionColumn,
  scopeIds: string[],
  confirmed: boolean | undefined,
  { backupDays = 0, accountId }: { accountId: string; backupDays?: number },
  alone?: ServiceNaming,
): Promise<{ id: string; projectId: string }[]> {
  const marked = await markServices(tx, column, scopeIds);
  const live = marked.filter((service) => service.live);
  const addons = marked.filter((service) => !isDeployable(service.type)).map((addon) => addon.id);
  const keeps = addons.length > 0 && backupDays > 0;
  const kept = keeps ? await keepNewestBackups(tx, accountId, addons, backupDays) : NONE_KEPT;
  if (live.length > 0 && !confirmed) throw confirmationRequired(live, kept);
  const ids = marked.map((service) => service.id);
  // Usage ends with the request, however long the removal takes.
  await stopUsage(tx, ids);
  await wakeAwaiting(tx, ids);
  const events = marked.map(({ id: serviceId, live: _, ...service }) =>
    eventOf(ServiceDeletedSchema, accountId, {
      ...{ ...service, accountId, serviceId, withEnvironment: !alone },
      ...alone,
    }),
  );
  await emitAll(tx, events);
  await notifyReconcilers(tx);
  return marked;
}

type Kept = { count: number; until?: Timestamp };
const NONE_KEPT: Kept = { count: 0 };

function confirmationRequired(
  live: { id: string; name: string; environmentId: string }[],
  { count: keptBackups, until }: Kept,
) {
  const services = live
    .slice(0, MAX_LISTED)
    .map(({ id, name, environmentId }) => ({ id, name, environmentId }));
  const what = live.length === 1 ? "a live service" : `${live.length} live services`;
  const keptUntil = until && timestampDate(until).toISOString();
  const kept = keptUntil ? ` The newest backup of each addon that has one is kept until ${keptUntil}.` : "";
  const message = `This deletes ${what}.${kept} Send confirmImpact: true to confirm.`;
  const impact = { services, total: live.length, ...(keptUntil && { keptBackups, keptUntil }) };
  return conflict("impact_confirmation_required", message, { impact });
}
