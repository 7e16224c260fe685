import type { Db } from "../../kit/postgres/db.ts";
import { addonKeyContext } from "../addons/addon-keys.ts";
import { type AddonKeyRow, listAddonKeys } from "../addons/sql.ts";
import type { ChainRow } from "../rows/sql.ts";
import { kindInChain, type Scope } from "../scopes/scope.ts";
import type { SealContext } from "../seal/seal.ts";
import type { Addon, VariableRow } from "./resolve.ts";

/** Stands for a value in `resolve`, so that only what is returned is decrypted. */
export type SealedValue = { context: SealContext; sealed: Buffer | null };

/** Returns the rows of a scope's chain for `resolve`; literals read without their value have `sealed: null`. */
export function toVariableRows(
  scope: Scope,
  rows: (ChainRow & { sealed?: Buffer | null })[],
): VariableRow<SealedValue>[] {
  const { accountId } = scope;
  return rows.map((row) => {
    const kind = kindInChain(scope, row.scopeId);
    if (row.aliasTarget !== null || row.connectionService !== null)
      return { ...row, scope: kind, value: null };
    const context = { accountId, scope: kind, scopeId: row.scopeId, name: row.name };
    return { ...row, scope: kind, value: { context, sealed: row.sealed ?? null } };
  });
}

/** Reads the keys of the addons that rows of a scope's chain connect to; none at project scope. */
export async function readAddonKeys(db: Db, scope: Scope, rows: ChainRow[]): Promise<AddonKeyRow[]> {
  const names = connectedServices(rows);
  return names.length === 0 || !scope.environmentId ? [] : listAddonKeys(db, [scope.environmentId], names);
}

/** Returns the names of the services that connections name. */
export function connectedServices(rows: Pick<ChainRow, "connectionService">[]): string[] {
  return [...new Set(rows.map((row) => row.connectionService).filter((name) => name !== null))];
}

/** Returns the services of one environment by name for `resolve`; `value` returns what stands for a key's value. */
export function addonsByName<T>(list: AddonKeyRow[], value: (row: AddonKeyRow) => T): Map<string, Addon<T>> {
  const addons = new Map<string, Addon<T> & { keys: Map<string, { value?: T; sensitive: boolean }> }>();
  for (const row of list) {
    const addon = addons.get(row.name) ?? { type: row.type, ready: row.ready, keys: new Map() };
    addons.set(row.name, addon);
    if (row.key !== null) addon.keys.set(row.key, { value: value(row), sensitive: row.sensitive! });
  }
  // What was published before there were poolers has no such key.
  for (const { type, keys } of addons.values()) {
    const url = type === "postgres" ? keys.get("URL") : undefined;
    if (url && !keys.has("POOLED_URL")) keys.set("POOLED_URL", url);
  }
  return addons;
}

/** Returns the sealed value of an addon's key, for `addonsByName`. */
export function sealedKey(accountId: string): (row: AddonKeyRow) => SealedValue {
  return ({ serviceId, key, sealed }) => ({ context: addonKeyContext(accountId, serviceId, key!), sealed });
}
