import type { Pool } from "../../kit/postgres/db.ts";
import { notFound } from "../../kit/rpc/refusals.ts";
import { type AddonKeyRow, listAddonKeys } from "../addons/sql.ts";
import type { DataKeys, Vault } from "../seal/data-keys.ts";
import type { FollowedScope, ScopeChange } from "./followed-scope.ts";
import type { ServiceSet } from "./service-set.ts";
import { type FollowedRow, readFollowed } from "./sql.ts";

type Read = Map<string, FollowedRow[]>;
type Services = Map<FollowedScope, { list: AddonKeyRow[]; names: Set<string> }>;

/**
 * Reads scopes again, in one statement for all of them, and tells the followers of the sets that they are part of what
 * changed. Sets of scopes that were deleted end with 404, and those whose values cannot be decrypted with 503.
 */
export async function refreshScopes(
  { pool, keys }: { pool: Pool; keys: DataKeys },
  batch: FollowedScope[],
  setsOf: ReadonlyMap<FollowedScope, ReadonlySet<ServiceSet>>,
): Promise<void> {
  const rows = await readFollowed(pool, batch);
  const read = Map.groupBy(rows, ({ scopeId }) => scopeId);
  const affected = new Set(batch.flatMap((scope) => [...(setsOf.get(scope) ?? [])]));
  const services = await readServices(pool, batch, read, affected, setsOf);
  const vaults = await loadVaults(keys, read, services, affected);
  // At once from here on: nobody sees a scope after a change and another one before it.
  const changed = new Map<FollowedScope, ScopeChange>();
  for (const scope of batch) {
    const { isRead, revision } = scope;
    const change = scope.apply(read.get(scope.id) ?? []);
    if (isRead && scope.revision !== revision) changed.set(scope, change);
  }
  for (const [environment, { list, names }] of services) environment.applyServices(list, names);
  for (const one of affected) tell(one, changed, vaults.get(one.scope.accountId));
}

/** Reads the services that connections name, in environments that changed, and where a connection names another one. */
async function readServices(
  pool: Pool,
  batch: FollowedScope[],
  read: Read,
  affected: Set<ServiceSet>,
  setsOf: ReadonlyMap<FollowedScope, ReadonlySet<ServiceSet>>,
): Promise<Services> {
  const isStale = new Set(batch);
  const services: Services = new Map();
  for (const { chain, scopes } of affected) {
    const { environment } = chain;
    const named = scopes.flatMap(({ id }) => connectedIn(read.get(id)));
    const isKnown = !isStale.has(environment) && named.every((name) => environment.askedNames.has(name));
    if (isKnown) continue;
    const names = services.get(environment)?.names ?? new Set(namesIn(setsOf.get(environment) ?? []));
    for (const name of named) names.add(name);
    services.set(environment, { list: [], names });
  }
  const all = new Set([...services.values()].flatMap(({ names }) => [...names]));
  if (all.size === 0) return services;
  const ids = [...services.keys()].map(({ id }) => id);
  const byEnvironment = Map.groupBy(await listAddonKeys(pool, ids, [...all]), (row) => row.environmentId);
  for (const [environment, found] of services) found.list = byEnvironment.get(environment.id) ?? [];
  return services;
}

const connectedIn = (rows: FollowedRow[] = []): string[] =>
  rows.flatMap((row) =>
    row.of === "variable" && row.connectionService !== null ? [row.connectionService] : [],
  );

function* namesIn(sets: Iterable<ServiceSet>): Generator<string> {
  for (const { scopes } of sets) for (const scope of scopes) yield* scope.connectedServices();
}

/** Returns the vaults of the accounts that have values, or why one cannot be opened. */
async function loadVaults(
  keys: DataKeys,
  read: Read,
  services: Services,
  affected: Set<ServiceSet>,
): Promise<Map<string, Vault | Error>> {
  const isValue = (row: FollowedRow) =>
    row.of === "variable" && row.connectionService === null && row.aliasTarget === null;
  const accounts = new Set<string>();
  for (const { scope, scopes, chain, hasValues } of affected) {
    const hasKeys = services.get(chain.environment)?.list.some(({ key }) => key !== null);
    if (hasValues || hasKeys || scopes.some(({ id }) => read.get(id)?.some(isValue)))
      accounts.add(scope.accountId);
  }
  const loaded = [...accounts].map(
    async (id) => [id, await keys.load(id).catch((error: Error) => error)] as const,
  );
  return new Map(await Promise.all(loaded));
}

function tell(
  one: ServiceSet,
  changed: ReadonlyMap<FollowedScope, ScopeChange>,
  vault: Vault | Error | undefined,
): void {
  const gone = one.scopes.some(({ alive }) => !alive) ? notFound("service") : undefined;
  const problem = gone ?? (vault instanceof Error ? vault : undefined);
  if (problem) {
    one.end(problem);
    return;
  }
  if (vault && !(vault instanceof Error)) one.vault = vault;
  if (one.scopes.every(({ isRead }) => isRead)) one.commitChanges(changed);
}
