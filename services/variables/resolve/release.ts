import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ReleaseVariablesSchema } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { notFound } from "../../kit/rpc/refusals.ts";
import type { Addons } from "../addons/addon-keys.ts";
import { isAddon, type Scope } from "../scopes/scope.ts";
import { findKnownScope, ignoreNotFound, type Scopes } from "../scopes/scopes.ts";
import type { DataKeys } from "../seal/data-keys.ts";
import type { ResolvedSets } from "./resolved-sets.ts";

type Deps = { pool: Pool; scopes: Scopes; keys: DataKeys; sets: ResolvedSets; addons: Addons };

/** Reasons that an event in flight may resolve. */
const TRANSIENT_REASONS = new Set(["service_not_found", "service_not_ready", "key_not_found"]);
const MAX_REFRESHED = 20;

/** Returns what a release of a service gets, in plaintext. Throws 404, and 503 for values that cannot be decrypted. */
export async function resolveForRelease(
  deps: Deps,
  serviceId: string,
): Promise<MessageInitShape<typeof ReleaseVariablesSchema>> {
  const scope = await deps.scopes.findService(serviceId);
  if (isAddon(scope.serviceType)) throw notFound("service");
  const { data, dangling } = await readRefreshed(deps, scope);
  const vault = await deps.keys.loadOrCreate(scope.accountId);
  // The message has no member for where an entry comes from, so that is not sent.
  return { data, dangling, fingerprint: vault.fingerprint(data) };
}

/**
 * Reads the set of a service. Where a connection dangles for a reason that an event in flight may resolve, it refreshes the
 * addon first, so that a release never lacks keys which its addon has published.
 */
async function readRefreshed(deps: Deps, scope: Scope) {
  const set = await deps.sets.readForRelease(scope);
  const transient = set.dangling.filter((entry) => entry.connection && TRANSIENT_REASONS.has(entry.reason));
  const names = [...new Set(transient.map((entry) => entry.connection!.service))].slice(0, MAX_REFRESHED);
  if (names.length === 0) return set;
  await Promise.all(names.map((name) => refreshAddon(deps, scope, name)));
  // Also when nothing was refreshed: an event may have brought the keys after the set was read.
  return deps.sets.readForRelease(scope);
}

async function refreshAddon(deps: Deps, { accountId, projectId, environmentId }: Scope, service: string) {
  const path = { accountId, projectId, environmentId, service };
  const known = await findKnownScope(deps.pool, path);
  if (!known) await deps.scopes.find(path).catch(ignoreNotFound);
  else if (isAddon(known.serviceType)) await deps.addons.refresh(known);
}
