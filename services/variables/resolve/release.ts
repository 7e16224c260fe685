import type { Pool } from "../../kit/postgres/db.ts";
import { notFound } from "../../kit/rpc/errors.ts";
import type { Addons } from "../addons/addon-keys.ts";
import { isAddon, type Scope } from "../scopes/scope.ts";
import { findKnownScope, ignoreNotFound, type Scopes } from "../scopes/scopes.ts";
import type { Resolved } from "./resolve.ts";
import type { ResolvedSets } from "./resolved-sets.ts";

type Deps = { pool: Pool; scopes: Scopes; sets: ResolvedSets; addons: Addons };

// Reasons that an event on its way may resolve.
const TRANSIENT_REASONS = new Set(["service_not_found", "service_not_ready", "key_not_found"]);
const MAX_REFRESHED = 20;

/**
 * Returns the plaintext set of a service for a release. Where a connection dangles for a reason that may have
 * passed, the deployer is asked first, so that a release never lacks what its addon has published already.
 */
export async function resolveForRelease(
  deps: Deps,
  serviceId: string,
): Promise<{ scope: Scope; set: Resolved }> {
  const scope = await deps.scopes.findService(serviceId);
  if (isAddon(scope.serviceType)) throw notFound("service");
  const set = await deps.sets.readForRelease(scope);
  const doubtful = set.dangling.filter((entry) => entry.connection && TRANSIENT_REASONS.has(entry.reason));
  const names = [...new Set(doubtful.map((entry) => entry.connection!.service))].slice(0, MAX_REFRESHED);
  if (names.length === 0) return { scope, set };
  await Promise.all(names.map((name) => refreshAddon(deps, scope, name)));
  // Also when nothing was refreshed: an event may have brought the keys after the set was read.
  return { scope, set: await deps.sets.readForRelease(scope) };
}

async function refreshAddon(deps: Deps, { accountId, projectId, environmentId }: Scope, service: string) {
  const path = { accountId, projectId, environmentId, service };
  const known = await findKnownScope(deps.pool, path);
  if (!known) await deps.scopes.find(path).catch(ignoreNotFound);
  else if (isAddon(known.serviceType)) await deps.addons.refresh(known);
}
