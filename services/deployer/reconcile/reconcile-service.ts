import type { EntitlementsOf } from "../../kit/plans.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Addons } from "../addons/lifecycle.ts";
import type { AddonServers } from "../addons/port.ts";
import type { Builds } from "../builds/running-builds.ts";
import type { Runtime, RuntimeStatus } from "../runtime/port.ts";
import type { AddonType } from "../terms/services.ts";
import { toStorableText } from "../terms/storable-text.ts";
import { TIMEOUTS } from "../terms/timeouts.ts";
import { readDesired } from "./desired-sql.ts";
import { type Action, type Desired, type Observed, type Plan, plan } from "./plan.ts";

export type ReconcileDeps = {
  pool: Pool;
  runtime: Runtime;
  addonServers: AddonServers;
  addons: Pick<Addons, "poolerPauseMs">;
  builds: Builds;
  entitlementsOf: EntitlementsOf;
  /** Performs an action; returns whether the service has to be planned again at once. */
  perform: (serviceId: string, action: Action) => Promise<boolean>;
  stopping: AbortSignal;
};

/** More rounds than a service needs; after them the other services continue. */
const ROUNDS = 10;
const NEXT_TURN_MS = 1_000;

/**
 * Plans and acts for one service until nothing is left to do. Returns the milliseconds until it has to be
 * planned again; undefined when only a notification can change anything. Calls `reading` each time before all is read
 * again: what was notified until then is seen.
 */
export async function reconcileService(
  deps: ReconcileDeps,
  serviceId: string,
  reading: () => void = () => {},
): Promise<number | undefined> {
  let recorded: Observed | undefined;
  for (let round = 0; round < ROUNDS; round++) {
    if (!recorded) reading();
    const desired = await readDesired(deps.pool, serviceId);
    if (!desired || deps.stopping.aborted) return undefined;
    const timeouts = { ...TIMEOUTS, buildMs: deps.entitlementsOf(desired.tier).buildMs };
    // A deployment replaces whatever runs, which is not read before it is applied, but after it.
    const unseen = { building: deps.builds.current(serviceId) };
    const blind = round === 0 && applies(plan(desired, unseen, timeouts));
    const observed = blind ? unseen : (recorded ?? (await observe(deps, serviceId, desired)));
    const { actions, wakeAt } = plan(desired, observed, timeouts);
    let again = blind;
    for (const action of actions) again = (await deps.perform(serviceId, action)) || again;
    if (!again) return wakeAt && Math.max(0, wakeAt - desired.now);
    // What was only recorded is as it was seen: each reading is two calls to the cluster.
    recorded = actions.every((action) => action.do === "record-status") ? observed : undefined;
  }
  return NEXT_TURN_MS;
}

const applies = ({ actions }: Plan) => actions.some((action) => action.do === "apply");

async function observe(deps: ReconcileDeps, serviceId: string, desired: Desired): Promise<Observed> {
  const unread = deps.runtime.unread?.().includes(desired.environmentId);
  const runtime = withStorableMessage(await deps.runtime.status(serviceId));
  const building = deps.builds.current(serviceId);
  const addon = await observeAddon(deps, serviceId, desired);
  const poolerPauseMs = desired.pooler ? deps.addons.poolerPauseMs(serviceId) : 0;
  return { runtime, unread: unread && !runtime, addon, poolerPauseMs, building };
}

async function observeAddon(
  { addonServers }: ReconcileDeps,
  serviceId: string,
  { type, environmentId, addonState, engine }: Desired,
): Promise<Observed["addon"]> {
  if (addonState !== "ready") return undefined;
  const addon = { serviceId, type: type as AddonType, environmentId, engine: engine ?? undefined };
  return addonServers.ownServer.includes(addon.type) ? addonServers.status(addon) : "shared";
}

function withStorableMessage(status: RuntimeStatus | undefined): RuntimeStatus | undefined {
  return status?.message === undefined ? status : { ...status, message: toStorableText(status.message) };
}
