import type { Pool } from "../../kit/postgres/db.ts";
import { notFound } from "../../kit/rpc/errors.ts";
import type { Addons } from "../addons/addon-keys.ts";
import { isAddon, knownScope, type Scope, type Scopes, unlessNotFound } from "../scopes/scopes.ts";
import type { Resolved } from "./resolve.ts";
import type { ResolvedSets } from "./resolved-sets.ts";

type Deps = { pool: Pool; scopes: Scopes; sets: ResolvedSets; addons: Addons };

// Reasons that end by themselves once an event arrives.
const PASSING = new Set(["service_not_found", "service_not_ready", "key_not_found"]);
const MAX_ASKED = 20;

/**
 * The plaintext set of a service for a release. Where a connection dangles for a reason that may have
 * passed, the deployer is asked first, so that a release never lacks what its addon has published already.
 */
export async function resolveForRelease(
  deps: Deps,
  serviceId: string,
): Promise<{ scope: Scope; set: Resolved }> {
  const scope = await deps.scopes.ofService(serviceId);
  if (isAddon(scope.type)) throw notFound("service");
  const set = await deps.sets.release(scope);
  const doubtful = set.dangling.filter((entry) => entry.connection && PASSING.has(entry.reason));
  const names = [...new Set(doubtful.map((entry) => entry.connection!.service))].slice(0, MAX_ASKED);
  if (names.length === 0) return { scope, set };
  await Promise.all(names.map((name) => askAgain(deps, scope, name)));
  // Also without news: an event may have brought them after the set was read.
  return { scope, set: await deps.sets.release(scope) };
}

async function askAgain(deps: Deps, { accountId, projectId, environmentId }: Scope, service: string) {
  const path = { accountId, projectId, environmentId, service };
  const known = await knownScope(deps.pool, path);
  if (!known) await deps.scopes.find(path).catch(unlessNotFound);
  else if (isAddon(known.type)) await deps.addons.refresh(known);
}
