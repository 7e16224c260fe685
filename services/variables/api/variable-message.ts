import type { Message, MessageInitShape } from "@bufbuild/protobuf";
import type { VariableSchema } from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Db } from "../../kit/postgres/db.ts";
import { addonsByName, readAddonKeys } from "../resolve/chain.ts";
import { DERIVED_SENSITIVE } from "../resolve/resolve.ts";
import type { SealedVariable, StoredVariable } from "../rows/sql.ts";
import { type ChainRow, listChainRows } from "../rows/sql.ts";
import { chainOf, type Scope } from "../scopes/scope.ts";
import type { Vault } from "../seal/data-keys.ts";

type VariableMessage = Exclude<MessageInitShape<typeof VariableSchema>, Message>;

/** Returns stored rows of a scope as messages, without values; the sensitivity of connections and aliases is derived. */
export async function toMessages(db: Db, scope: Scope, rows: StoredVariable[]): Promise<VariableMessage[]> {
  const derived = rows.some((row) => row.aliasTarget !== null || row.connectionService !== null)
    ? await deriveSensitivity(db, scope, rows)
    : undefined;
  return rows.map(({ connectionService, connectionKey, aliasTarget, ...row }) => ({
    id: row.id,
    name: row.name,
    scope: scope.kind,
    scopeId: scope.id,
    sensitive: derived?.(row.name) ?? row.sensitive,
    connection:
      connectionService === null ? undefined : { service: connectionService, key: connectionKey ?? "" },
    aliasTarget: aliasTarget ?? undefined,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  }));
}

/** As `toMessages`, with the values of literals that are not sensitive. Throws 503. */
export async function toMessagesWithValues(
  db: Db,
  scope: Scope,
  rows: SealedVariable[],
  vault: Vault | undefined,
): Promise<VariableMessage[]> {
  const { accountId, kind, id } = scope;
  const messages = await toMessages(db, scope, rows);
  return messages.map((message, index) => {
    const { sealed, sensitive, name } = rows[index]!;
    if (sealed === null || sensitive) return message;
    return { ...message, value: vault!.open({ accountId, scope: kind, scopeId: id, name }, sealed) };
  });
}

/**
 * Returns whether a name of a scope is sensitive: a connection by its key, an alias by its target as the scope's
 * own chain sees it. An alias that does not resolve is not sensitive.
 */
async function deriveSensitivity(
  db: Db,
  scope: Scope,
  rows: StoredVariable[],
): Promise<(name: string) => boolean> {
  const own: ChainRow[] = rows.map((row) => ({ ...row, scopeId: scope.id, size: 0 }));
  const stored = rows.some((row) => row.aliasTarget !== null) ? await listChainRows(db, chainOf(scope)) : own;
  const addons = addonsByName(await readAddonKeys(db, scope, stored), () => null);
  const nearness = chainOf(scope);
  const nearest = new Map<string, ChainRow>();
  for (const row of stored) {
    const other = nearest.get(row.name);
    if (!other || nearness.indexOf(row.scopeId) > nearness.indexOf(other.scopeId)) nearest.set(row.name, row);
  }
  return (start) => {
    let row = nearest.get(start);
    for (let steps = nearest.size; row && row.aliasTarget !== null && steps > 0; steps--)
      row = nearest.get(row.aliasTarget);
    if (!row || row.aliasTarget !== null) return false;
    const { connectionService, connectionKey: key } = row;
    if (connectionService === null || key === null) return row.sensitive;
    return DERIVED_SENSITIVE.has(key) || addons.get(connectionService)?.keys.get(key)?.sensitive === true;
  };
}
