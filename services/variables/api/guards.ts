import type { HandlerContext } from "@connectrpc/connect";
import type { Db } from "../../kit/postgres/db.ts";
import { expectMatch } from "../../kit/rpc/etag.ts";
import { conflict, notFound } from "../../kit/rpc/refusals.ts";
import { findVariable, listImpact, type SealedVariable } from "../rows/sql.ts";
import type { Scope } from "../scopes/scope.ts";
import type { Scopes } from "../scopes/scopes.ts";
import type { ServiceRef } from "../scopes/sql.ts";
import { tagOf } from "../writes/variable-row.ts";
import { toMessages } from "./variable-message.ts";

const MAX_IMPACT_SHOWN = 20;

/** Returns a variable of a scope by name. Throws 404. */
export async function requireVariable(db: Db, scope: Scope, name: string): Promise<SealedVariable> {
  const row = await findVariable(db, scope.id, name);
  if (!row) throw notFound("variable");
  return row;
}

/** Throws 409 revision_conflict when If-Match names another tag than the stored variable's. */
export async function expectCurrent(db: Db, ctx: HandlerContext, scope: Scope, row: SealedVariable) {
  if (!ctx.requestHeader.has("if-match")) return;
  const [message] = await toMessages(db, scope, [row]);
  expectMatch(ctx, tagOf(row, message!.sensitive), "variable");
}

/** Returns the services that resolve one of the names to this scope's variable: at most `limit`, and the total. */
export async function findImpact(
  db: Db,
  scope: Scope,
  names: string[],
  services: ServiceRef[],
  limit: number | null,
) {
  const found = await listImpact(db, scope.id, names, services, limit);
  const shown = found.map(({ id, name, environmentId }) => ({ id, name, environmentId }));
  return { services: shown, total: found[0]?.total ?? 0 };
}

export type Guard = (db: Db) => Promise<void>;

/**
 * Returns the guard that throws 409 with the impact, within a write's transaction, when variables of a project or
 * environment are unset without `confirmImpact`. Asks the deployer for the services first. Throws 503 while it does not
 * answer.
 */
export async function impactGuard(
  scopes: Scopes,
  scope: Scope,
  names: string[],
  confirmed: boolean | undefined,
): Promise<Guard> {
  if (scope.kind === "service" || confirmed === true || names.length === 0) return async () => {};
  const services = await scopes.listServicesUnder(scope);
  return async (db) => {
    const impact = await findImpact(db, scope, names, services, MAX_IMPACT_SHOWN);
    throw conflict(
      "impact_confirmation_required",
      "Services would lose the value or fall back to a wider scope. Repeat the request with confirmImpact: true.",
      { impact },
    );
  };
}
