import type { Db } from "../../kit/postgres/db.ts";
import { listAddonKeys } from "../addons/sql.ts";
import type { AliasWarning } from "../aliases/alias-warnings.ts";
import { addonsByName, connectedServices } from "../resolve/chain.ts";
import { resolve } from "../resolve/resolve.ts";
import type { NewVariable } from "../rows/sql.ts";
import type { Scope } from "../scopes/scope.ts";
import { listEnvironments } from "../scopes/sql.ts";

const MAX_WARNINGS = 20;

/**
 * Returns the first 20 warnings about connections just stored that do not resolve; at project scope in each of the newest
 * environments. An addon that is still being created causes none.
 */
export async function connectionWarnings(
  db: Db,
  scope: Scope,
  written: NewVariable[],
): Promise<AliasWarning[]> {
  const rows = written
    .filter((row) => row.connectionService !== null)
    .map((row) => ({ ...row, scope: scope.kind, scopeId: scope.id }));
  if (rows.length === 0) return [];
  const { environmentId } = scope;
  const environments = environmentId
    ? [environmentId]
    : await listEnvironments(db, scope.projectId, MAX_WARNINGS);
  const keys = await listAddonKeys(db, environments, connectedServices(rows));
  const byEnvironment = Map.groupBy(keys, (row) => row.environmentId);
  const warnings: AliasWarning[] = [];
  for (const id of environments) {
    const { dangling } = resolve({ rows, addons: addonsByName(byEnvironment.get(id) ?? [], () => null) });
    for (const { name: variable, connection, reason } of dangling)
      if (reason !== "service_not_ready") warnings.push({ reason, environmentId: id, variable, connection });
  }
  return warnings.slice(0, MAX_WARNINGS);
}
