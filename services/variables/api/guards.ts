import type { HandlerContext } from "@connectrpc/connect";
import type { Db } from "../../kit/postgres/db.ts";
import { conflict, notFound } from "../../kit/rpc/errors.ts";
import type { Scope, Scopes } from "../scopes/scopes.ts";
import { impactRows, type Neighbour } from "../scopes/sql.ts";
import { type SealedVariable, variableByName } from "../writes/sql.ts";
import { tagOf } from "../writes/variable-row.ts";
import { expectMatch } from "./etag.ts";
import { present } from "./variable-message.ts";

const IMPACT_SHOWN = 20;

/** A variable of a scope by name, or 404. */
export async function requireVariable(db: Db, scope: Scope, name: string): Promise<SealedVariable> {
  const row = await variableByName(db, scope.id, name);
  if (!row) throw notFound("variable");
  return row;
}

/** 409 revision_conflict when If-Match names another state than the stored one. */
export async function expectCurrent(db: Db, ctx: HandlerContext, scope: Scope, row: SealedVariable) {
  if (!ctx.requestHeader.has("if-match")) return;
  const [message] = await present(db, scope, [row]);
  expectMatch(ctx, tagOf(row, message!.sensitive));
}

/** Those of the services that resolve one of the names to this scope's variable: `limit` of them, and how many. */
export async function impactOf(
  db: Db,
  scope: Scope,
  names: string[],
  services: Neighbour[],
  limit: number | null,
) {
  const found = await impactRows(db, scope.id, names, services, limit);
  const shown = found.map(({ id, name, environmentId }) => ({ id, name, environmentId }));
  return { services: shown, total: found[0]?.total ?? 0 };
}

export type Guard = (db: Db) => Promise<void>;

/**
 * What refuses, within a write's transaction, that variables of a project or environment go without
 * `confirmImpact`: 409 with the impact. The services are asked for before: 503 while nobody can tell them.
 */
export async function guardImpact(
  scopes: Scopes,
  scope: Scope,
  names: string[],
  confirmed: boolean | undefined,
): Promise<Guard> {
  if (scope.kind === "service" || confirmed === true || names.length === 0) return async () => {};
  const services = await scopes.servicesUnder(scope);
  return async (db) => {
    const impact = await impactOf(db, scope, names, services, IMPACT_SHOWN);
    throw conflict(
      "impact_confirmation_required",
      "Services lose the value or fall back to a wider scope. Repeat with confirmImpact: true.",
      { impact },
    );
  };
}
