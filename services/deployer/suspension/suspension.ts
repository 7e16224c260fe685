import { SuspensionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { type Handler, on } from "../../kit/events/handler.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/refusals.ts";
import { sizes } from "../../kit/sizes.ts";
import { enqueue, notifyReconcilers } from "../due/sql.ts";
import type { LockedService } from "../projects/services-sql.ts";
import { mostReplicas, type StoredConfig } from "../terms/stored-config.ts";
import { stopUsage } from "../usage/intervals.ts";
import * as sql from "./sql.ts";
import { isWithinAllowance, toSuspend } from "./to-suspend.ts";

/**
 * Handlers of what billing says an account may run (docs/billing.md#after-a-plan-ends). Billing repeats it: what the
 * version before missed takes effect then, and of services that went another is brought back.
 */
export function suspensionHandlers(): Handler[] {
  return [
    on(SuspensionChangedSchema, async (tx, { accountId, reason, revision }) => {
      // Services before their account, as requests lock them.
      const candidates = await sql.lockCandidates(tx, accountId);
      if ((await sql.setSuspension(tx, accountId, reason || undefined, revision)) === 0) return;
      if (reason) await stopUsage(tx, await sql.cancelRuns(tx, accountId));
      const stopped = reason ? toSuspend(candidates) : [];
      const ids = candidates.map(({ id }) => id);
      const changed = await sql.setSuspended(tx, ids, stopped, reason || undefined);
      const resumed = changed.filter((id) => !stopped.includes(id));
      await sql.enqueueInOrder(tx, [...stopped, ...resumed]);
      await notifyReconcilers(tx);
    }),
  ];
}

/** A service that is to run, or to grow. One that does not exist yet has no id. */
type Runnable = { accountId: string; id?: string; type: string };

/**
 * Requires that a service may run with a configuration. While its account is suspended, that is one service of each type,
 * with what the allowance pays. The caller has locked the service. Throws 403 compute_suspended with `suspended`.
 */
export async function requireRunnable(tx: Tx, service: Runnable, config: StoredConfig): Promise<void> {
  const reason = await findObstacle(tx, service, config);
  if (reason !== undefined) throw computeSuspended(service.accountId, reason);
}

/** Requires that a service may have a changed configuration: one that is not larger always. Throws as `requireRunnable`. */
export async function requireGrowable(tx: Tx, service: LockedService, config: StoredConfig): Promise<void> {
  const { size } = service.config;
  const grows =
    mostReplicas(config) > mostReplicas(service.config) || sizes[config.size].cpu > sizes[size].cpu;
  if (grows) await requireRunnable(tx, service, config);
}

/** Lets a stopped service run that may run with this configuration. */
export async function resumeIfAllowed(tx: Tx, service: LockedService, config: StoredConfig): Promise<void> {
  if ((await findObstacle(tx, service, config)) !== undefined) return;
  if ((await sql.setRunning(tx, service.id)) > 0) await enqueue(tx, [service.id]);
}

/** Requires that an account may start runs: a suspended one may not. The caller has locked the service. Throws as `requireRunnable`. */
export async function requireUnsuspended(tx: Tx, accountId: string): Promise<void> {
  const reason = await sql.findSuspension(tx, accountId);
  if (reason !== undefined) throw computeSuspended(accountId, reason, "No commands run now.");
}

/** Returns why a service must not run with a configuration; undefined when it may. */
async function findObstacle(tx: Tx, { accountId, id = "", type }: Runnable, config: StoredConfig) {
  if ((await sql.findSuspension(tx, accountId)) === undefined) return undefined;
  const reason = await sql.lockSuspension(tx, accountId);
  if (reason === undefined) return undefined;
  const allowed = isWithinAllowance(config) && !(await sql.runsAnother(tx, accountId, type, id));
  return allowed ? undefined : reason;
}

const WHY: Record<string, string> = {
  free_plan: "No plan pays for more, and the grace period is over. To run it again, an owner can subscribe",
  spend_limit:
    "The account has reached its spend limit. To run it again, an owner can raise or remove the limit",
};

const ONE_OF_EACH = "Only one service of each type runs now, with one replica of size nano.";

function computeSuspended(accountId: string, suspended: string, what = ONE_OF_EACH) {
  const path = suspended === "spend_limit" ? "PUT" : "POST";
  const resource = suspended === "spend_limit" ? "spend-limit" : "subscription";
  const message = `${what} ${WHY[suspended] ?? WHY.free_plan} at ${path} /accounts/${accountId}/${resource}.`;
  return refuse(403, "compute_suspended", message, { context: { suspended } });
}
