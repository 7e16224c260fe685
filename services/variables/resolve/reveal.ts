import type { Db } from "../../kit/postgres/db.ts";
import { invalid, notFound } from "../../kit/rpc/refusals.ts";
import { findVariable, listChainRows } from "../rows/sql.ts";
import { chainOf, type Scope } from "../scopes/scope.ts";
import type { Vault } from "../seal/data-keys.ts";
import { addonsByName, readAddonKeys, sealedKey, toVariableRows } from "./chain.ts";
import { resolve } from "./resolve.ts";

/**
 * Returns the plaintext of one variable, resolved as far as the chain of its own scope reaches. Throws 404, 422
 * with the reason why it dangles, and 503 when its value cannot be decrypted.
 */
export async function reveal(db: Db, vault: Vault, scope: Scope, name: string): Promise<string> {
  const own = await findVariable(db, scope.id, name);
  if (!own) throw notFound("variable");
  const { accountId } = scope;
  if (own.sealed) return vault.open({ accountId, scope: scope.kind, scopeId: scope.id, name }, own.sealed);
  const stored = await listChainRows(db, chainOf(scope));
  const addonKeys = await readAddonKeys(db, scope, stored);
  const rows = toVariableRows(scope, stored);
  const { data, dangling } = resolve({ rows, addons: addonsByName(addonKeys, sealedKey(accountId)) });
  const entry = data.find((one) => one.name === name);
  if (!entry) {
    const { reason } = dangling.find((one) => one.name === name)!;
    throw invalid("", reason, `The variable does not resolve: ${reason.replaceAll("_", " ")}.`);
  }
  const { context, sealed } = entry.value!;
  // Keys of addons were read with their sealed values, rows of the chain without.
  const value = sealed ?? (await findVariable(db, context.scopeId, context.name))?.sealed;
  if (!value) throw invalid("", "alias_target_not_found", "The target of the alias was just removed.");
  return vault.open(context, value);
}
