import { newId } from "../../kit/ids.ts";
import { invalid } from "../../kit/rpc/refusals.ts";
import type { NewVariable, Replaced, SealedVariable, StoredVariable } from "../rows/sql.ts";
import type { Scope } from "../scopes/scope.ts";
import type { Vault } from "../seal/data-keys.ts";

/** The source of a variable's value. */
export type Source =
  | { kind: "literal"; value: string }
  | { kind: "connection"; service: string; key: string }
  | { kind: "alias"; target: string };

/** Whether a stored variable is a literal: neither a connection nor an alias. */
export function isLiteral(row: Pick<StoredVariable, "connectionService" | "aliasTarget">): boolean {
  return row.connectionService === null && row.aliasTarget === null;
}

/** Returns the tag of a single read: it changes with the row and with the sensitivity of its target. */
export function tagOf(row: Pick<StoredVariable, "id" | "revision">, sensitive: boolean | undefined): string {
  return `${row.id.slice(4)}-${row.revision}${sensitive ? "-s" : ""}`;
}

/** Returns a row to store, with its literal sealed. Without `id` the row has none: `overwrite` sets it. */
export function toRow(
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

/**
 * Returns the row of a batch entry, with the id of the row that it overwrites. A sensitive literal stays sensitive unless
 * the entry says otherwise.
 */
export function overwrite(row: NewVariable, sensitive: boolean | undefined, old: Replaced | undefined) {
  const keep = sensitive === undefined && row.sealed !== null && old?.sensitive === true;
  return { ...row, id: old?.id ?? newId("var"), sensitive: keep || row.sensitive };
}

/** Returns a stored variable after a PATCH. Throws 422 kind_mismatch and sensitive_requires_literal. */
export function applyPatch(
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
    throw invalid(
      "sensitive",
      "sensitive_requires_literal",
      "Only a variable with a value can be sensitive.",
    );
  const { id, name } = old;
  const row = source ? toRow(vault, scope, { id, name, sensitive }, source) : { ...old, sensitive };
  const unsealed = old.sensitive && !sensitive && !source;
  return { action: unsealed ? "variable.unseal" : "variable.update", row };
}
