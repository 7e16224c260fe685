import type { Logger } from "../../../../shared/logger.ts";
import type { Router } from "../../routing/router.ts";
import type { InstanceRecord } from "../record/service-record.ts";
import type { Replica } from "./replica.ts";

/** Ends replicas that are no longer needed. Calls `retired` after each one has ended. */
export function createRetirement(
  { router, log, serviceId }: { router: Router; log: Logger; serviceId: string },
  { drainMs, graceMs }: { drainMs: number; graceMs: number },
  retired: () => void,
) {
  const retiring = new Map<Replica, Promise<void>>();

  const drained = async ({ host, port }: InstanceRecord) => {
    if (host !== undefined) await router.drained({ host, port }, drainMs);
  };

  return {
    /** Ends a replica, which receives no new requests, once those it has are answered. */
    retire(replica: Replica): void {
      const ended = replica
        .retire(graceMs, drained)
        .catch((error) => log.error({ err: error, serviceId }, "could not end an instance"))
        .finally(() => {
          retiring.delete(replica);
          retired();
        });
      retiring.set(replica, ended);
    },
    /** Returns the replicas that are retiring. */
    replicas: () => [...retiring.keys()],
    /** Resolves when the replicas that are retiring now have ended. */
    allEnded: () => Promise.all(retiring.values()),
  };
}
