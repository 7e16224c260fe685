import type { Db } from "../../kit/postgres/db.ts";
import * as sql from "../addons/sql.ts";
import type { AliasWarning } from "../aliases/alias-warnings.ts";
import { addonsByName, connectedServices } from "../resolve/chain.ts";
import { resolve } from "../resolve/resolve.ts";
import type { Scope } from "../scopes/scope.ts";
import type { NewVariable } from "./sql.ts";

const MAX_WARNINGS = 20;

/**
 * Returns where connections just stored lead to nothing: of a project, in each of its newest environments; the first 20.
 * An addon that is still being made is no reason for one.
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
    : await sql.listEnvironments(db, scope.projectId, MAX_WARNINGS);
  const keys = await sql.listAddonKeys(db, environments, connectedServices(rows));
  const byEnvironment = Map.groupBy(keys, (row) => row.environmentId);
  const warnings: AliasWarning[] = [];
  for (const id of environments) {
    const { dangling } = resolve({ rows, addons: addonsByName(byEnvironment.get(id) ?? [], () => null) });
    for (const { name: variable, connection, reason } of dangling)
      if (reason !== "service_not_ready") warnings.push({ reason, environmentId: id, variable, connection });
  }
  return warnings.slice(0, MAX_WARNINGS);
}
