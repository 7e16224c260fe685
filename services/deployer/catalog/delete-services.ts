import { type Client, Code, ConnectError } from "@connectrpc/connect";
import { ServiceDeletedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { conflict, unavailable } from "../../kit/rpc/errors.ts";
import { notifyReconcilers } from "../reconcile/queue/sql.ts";
import { stopUsage } from "../usage/intervals.ts";
import { type Deletable, markServices } from "./deletion-sql.ts";

const SHOWN = 20;
const ANNOUNCE_MS = 5_000;
/** Half of the time for which variables remembers an announcement. */
const HOLDS_MS = 60_000;

/** Announces the deletion of a scope; to be awaited before the transaction that deletes it. */
export type Announce = (scopeId: string) => Promise<{
  /** Throws 503 when the transaction took too long: last of all in it. */
  stillHolds: () => void;
}>;

/**
 * Tells variables of deletions before they happen: it asks about the scope from then on, so that nothing below it
 * is read or written once the deletion is answered. Throws 503 when it cannot be told: nothing is deleted then.
 */
export function createAnnounce(
  variables: Pick<Client<typeof InternalService>, "announceDeletion">,
): Announce {
  return async (scopeId) => {
    const since = performance.now();
    await variables.announceDeletion({ scopeId }, { timeoutMs: ANNOUNCE_MS }).catch((error) => {
      // One of the version before, during an upgrade, learns of it by the event alone.
      if (!(error instanceof ConnectError && error.code === Code.Unimplemented)) throw unavailable();
    });
    return {
      stillHolds() {
        if (performance.now() - since > HOLDS_MS) throw unavailable();
      },
    };
  };
}

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
  await notifyReconcilers(tx);
}

function confirmationRequired(live: { id: string; name: string; environmentId: string }[]) {
  const services = live.slice(0, SHOWN).map(({ id, name, environmentId }) => ({ id, name, environmentId }));
  const what = live.length === 1 ? "A live service is" : `${live.length} live services are`;
  return conflict("impact_confirmation_required", `${what} deleted by this. Send confirmImpact: true.`, {
    impact: { services, total: live.length },
  });
}
