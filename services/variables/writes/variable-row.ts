import { newId } from "../../kit/ids.ts";
import { invalid } from "../../kit/rpc/errors.ts";
import type { Source } from "../api/request-rules.ts";
import type { Scope } from "../scopes/scopes.ts";
import type { Vault } from "../seal/data-keys.ts";
import type { NewVariable, Replaced, SealedVariable, StoredVariable } from "./sql.ts";

/** Whether a stored variable is a literal: neither a connection nor an alias. */
export function isLiteral(row: Pick<StoredVariable, "connectionService" | "aliasTarget">): boolean {
  return row.connectionService === null && row.aliasTarget === null;
}

/** The tag of a single read: changes with the row, and when what it points to becomes sensitive or stops. */
export function tagOf(row: Pick<StoredVariable, "id" | "revision">, sensitive: boolean | undefined): string {
  return `${row.id.slice(4)}-${row.revision}${sensitive ? "-s" : ""}`;
}

/** A row to store, its literal sealed for its place; without an id it is given one before it is stored. */
export function rowOf(
  vault: Vault,
  scope: Scope,
  given: { id?: string; name: string; sensitive?: boolean | undefined },
  source: Source,
): NewVariable {
  const { id = "", name, sensitive = false } = given;
  const { accountId, kind, id: scopeId } = scope;
  const literal = source.kind === "literal" ? source.value : undefined;
  return {
    id,
    name,
    sensitive,
    sealed: literal === undefined ? null : vault.seal({ accountId, scope: kind, scopeId, name }, literal),
    size: literal === undefined ? 0 : Buffer.byteLength(literal),
    connectionService: source.kind === "connection" ? source.service : null,
    connectionKey: source.kind === "connection" ? source.key : null,
    aliasTarget: source.kind === "alias" ? source.target : null,
  };
}

/** An entry of a batch over what it overwrites: a sensitive literal stays one unless the entry says so. */
export function overwriting(row: NewVariable, sensitive: boolean | undefined, old: Replaced | undefined) {
  const keep = sensitive === undefined && row.sealed !== null && old?.sensitive === true;
  return { ...row, id: old?.id ?? newId("var"), sensitive: keep || row.sensitive };
}

/** A stored variable after a PATCH. Throws 422 kind_mismatch and sensitive_requires_literal. */
export function patched(
  vault: Vault,
  scope: Scope,
  old: SealedVariable,
  patch: { source?: Source; sensitive?: boolean | undefined },
): { action: string; row: NewVariable } {
  const { source, sensitive = old.sensitive } = patch;
  const kind = isLiteral(old) ? "literal" : old.aliasTarget !== null ? "alias" : "connection";
  if (source && source.kind !== kind)
    throw invalid(
      "",
      "kind_mismatch",
      `${old.name} is of kind ${kind}; the kind of a variable never changes.`,
    );
  if (patch.sensitive !== undefined && kind !== "literal")
    throw invalid("sensitive", "sensitive_requires_literal", "Only a variable with a value has sensitive.");
  const { id, name } = old;
  const row = source ? rowOf(vault, scope, { id, name, sensitive }, source) : { ...old, sensitive };
  const unsealed = old.sensitive && !sensitive && !source;
  return { action: unsealed ? "variable.unseal" : "variable.update", row };
}
