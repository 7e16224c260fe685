import type { Db } from "../../kit/postgres/db.ts";
import { listAddonKeys } from "../addons/sql.ts";
import type { AliasWarning } from "../aliases/alias-warnings.ts";
import { addonsByName, connectedServices } from "../resolve/chain.ts";
import { resolve } from "../resolve/resolve.ts";
import type { NewVariable } from "../rows/sql.ts";
import type { Scope } from "../scopes/scope.ts";
import { listEnvironments } from "../scopes/sql.ts";

const MAX_WARNINGS = 20;
/** What the platform sets itself: a variable of this name reaches no service. */
const PORT = "PORT";

/**
 * Returns the first 20 warnings about what was just stored and does not reach services as it is: connections that do not
 * resolve, and PORT; at project scope in each of the newest environments. An addon that is still being created causes none.
 */
export async function environmentWarnings(
  db: Db,
  scope: Scope,
  written: NewVariable[],
): Promise<AliasWarning[]> {
  const rows = written
    .filter((row) => row.connectionService !== null)
    .map((row) => ({ ...row, scope: scope.kind, scopeId: scope.id }));
  const setsPort = written.some(({ name }) => name === PORT);
  if (rows.length === 0 && !setsPort) return [];
  const { environmentId } = scope;
  const environments = environmentId
    ? [environmentId]
    : await listEnvironments(db, scope.projectId, MAX_WARNINGS);
  const keys = rows.length > 0 ? await listAddonKeys(db, environments, connectedServices(rows)) : [];
  const byEnvironment = Map.groupBy(keys, (row) => row.environmentId);
  const warnings: AliasWarning[] = [];
  for (const id of environments) {
    if (setsPort) warnings.push({ reason: "port_reserved", environmentId: id, variable: PORT });
    const { dangling } = resolve({ rows, addons: addonsByName(byEnvironment.get(id) ?? [], () => null) });
    for (const { name: variable, connection, reason } of dangling)
      if (reason !== "service_not_ready") warnings.push({ reason, environmentId: id, variable, connection });
  }
  return warnings.slice(0, MAX_WARNINGS);
}
