import { setTimeout as delay } from "node:timers/promises";
import type { ResolvedVariables, ResolveVariables } from "./variables-client.ts";

/** Less than changed variables wait before they are compared: by then the next apply asks again. */
const KEPT_MS = 1_000;

/** A locked service, as far as its variables can be told from it. */
type Service = { id: string; revision: number; dirtyAt?: string | null };
/** A deployment that is being applied, and what its service's variables have been since. */
type Applied = { serviceId: string; deploymentId: string; revision: number; dirtyAt?: string | null };
type Asked = { deploymentId: string; service: Service; variables: Promise<ResolvedVariables> };

export type EarlyVariables = ReturnType<typeof createEarlyVariables>;

/**
 * Asks for the variables of a deployment while it is being accepted, so that applying it does not wait for them. Only
 * the process that applies deployments does.
 */
export function createEarlyVariables(resolve: ResolveVariables) {
  const asked = new Map<string, Asked>();
  let applies = false;
  return {
    /** Says whether this process applies deployments. */
    setApplies(now: boolean): void {
      applies = now;
      asked.clear();
    },
    /** Asks for the variables of a deployment that is being accepted, under the lock of its service. */
    ask(deploymentId: string, service: Service): void {
      if (!applies) return;
      const variables = resolve(service.id);
      variables.catch(() => {});
      const one = { deploymentId, service, variables };
      asked.set(service.id, one);
      void delay(KEPT_MS, undefined, { ref: false }).then(() => {
        if (asked.get(service.id) === one) asked.delete(service.id);
      });
    },
    /**
     * Returns the variables that were asked for, once. Undefined when there are none, or when the service has been marked
     * or has taken other variables since: those that were asked for may be older.
     */
    async take(row: Applied): Promise<ResolvedVariables | undefined> {
      const one = asked.get(row.serviceId);
      asked.delete(row.serviceId);
      if (one?.deploymentId !== row.deploymentId) return undefined;
      const { revision, dirtyAt } = one.service;
      if (revision !== row.revision || dirtyAt !== row.dirtyAt) return undefined;
      return one.variables.catch(() => undefined);
    },
    /** As `resolve`: what was asked for before is older, and is not returned any more. */
    resolve: ((serviceId) => {
      asked.delete(serviceId);
      return resolve(serviceId);
    }) satisfies ResolveVariables as ResolveVariables,
  };
}
