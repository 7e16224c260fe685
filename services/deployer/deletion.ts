import { ServiceDeletedSchema } from "../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { Tx } from "../kit/db.ts";
import { conflict } from "../kit/errors.ts";
import { emit } from "../kit/outbox.ts";
import { type Deletable, markServices } from "./sql-deletion.ts";
import { wakeReconcilers } from "./sql-work.ts";
import { stopUsage } from "./usage.ts";

const SHOWN = 20;

/**
 * Marks the services under a scope and tells of it. When some are live and that was not confirmed: 409
 * impact_confirmation_required, and with the transaction the marks are gone.
 */
export async function deleteServices(
  tx: Tx,
  column: Deletable,
  id: string,
  confirmed: boolean | undefined,
  path: { accountId: string; projectId: string },
): Promise<void> {
  const marked = await markServices(tx, column, id);
  const live = marked.filter((service) => service.live);
  if (live.length > 0 && !confirmed) throw confirmationRequired(live);
  // What is being deleted is not paid for any more, however long it takes.
  await stopUsage(
    tx,
    marked.map((service) => service.id),
  );
  for (const service of marked) {
    const event = { ...path, environmentId: service.environmentId, serviceId: service.id };
    await emit(tx, ServiceDeletedSchema, path.accountId, event);
  }
  await wakeReconcilers(tx);
}

function confirmationRequired(live: { id: string; name: string; environmentId: string }[]) {
  const services = live.slice(0, SHOWN).map(({ id, name, environmentId }) => ({ id, name, environmentId }));
  const what = live.length === 1 ? "A live service is" : `${live.length} live services are`;
  return conflict("impact_confirmation_required", `${what} deleted by this. Send confirmImpact: true.`, {
    impact: { services, total: live.length },
  });
}
