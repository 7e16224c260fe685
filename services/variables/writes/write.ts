import type { HandlerContext } from "@connectrpc/connect";
import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Pool, Tx } from "../../kit/postgres/db.ts";
import { invalid, notFound, refuse } from "../../kit/rpc/errors.ts";
import { effect } from "../../kit/rpc/idempotency.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { type AliasWarning, aliasWarnings } from "../aliases/alias-warnings.ts";
import { aliasCycle } from "../resolve/resolve.ts";
import { addonsByName, connectedServices, referenced } from "../resolve/resolved-sets.ts";
import { chainOf, knownScope, type Scope } from "../scopes/scopes.ts";
import { addonRows, lockProject, type Path } from "../scopes/sql.ts";
import { growthOf, MAX_SET_BYTES, refuseLarger, type SizedRow, type Write } from "./set-size.ts";
import * as sql from "./sql.ts";

export const MAX_VARIABLES = 1000;

/** What a write does, decided under the lock; nothing at all when it has nothing to store or remove. */
export type Decision = Write & { action: string; target: string; metadata?: Record<string, string> };
export type Written = { rows: sql.StoredVariable[]; removed: number; warnings: AliasWarning[] };

/**
 * One write to one scope: `decide` under the project's lock, then rows, revision, audit record and event in
 * one transaction. Throws what `decide` throws, 404 when the scope went away, 403 quota_exceeded, 422
 * alias_cycle and resolved_set_too_large.
 */
export async function write<T extends object>(
  deps: { pool: Pool },
  at: { path: Path; scope: Scope; ctx: HandlerContext },
  decide: (tx: Tx) => Promise<Decision>,
  answer: (tx: Tx, written: Written) => Promise<T>,
): Promise<T> {
  return effect(deps.pool, at.ctx, async (tx) => {
    await lockProject(tx, at.scope.projectId);
    const scope = await knownScope(tx, at.path);
    if (scope?.id !== at.scope.id) throw notFound(at.scope.kind);
    const decision = await decide(tx);
    if (decision.set.length === 0 && decision.unset.length === 0)
      return answer(tx, { rows: [], removed: 0, warnings: [] });
    await refuseCycle(tx, scope, decision);
    await refuseLargeSets(tx, scope, decision);
    const written = await store(tx, scope, decision);
    const names = [...decision.set.map((row) => row.name), ...decision.unset];
    const { accountId, kind, id } = scope;
    await audit(tx, who(at.ctx), {
      service: "variables",
      accountId,
      action: decision.action,
      target: decision.target,
      metadata: { ...placeOf(scope), ...decision.metadata },
    });
    const revision = BigInt(scope.revision + 1);
    await emit(tx, VariablesChangedSchema, accountId, {
      accountId,
      scope: kind,
      scopeId: id,
      names,
      revision,
    });
    return answer(tx, written);
  });
}

/** Where a variable is, for audit records. */
export function placeOf(scope: Scope): Record<string, string> {
  const { kind, id, projectId, environmentId } = scope;
  return { scope: kind, scopeId: id, projectId, ...(environmentId && { environmentId }) };
}

async function store(tx: Tx, scope: Scope, { set, unset }: Write): Promise<Written> {
  const revision = scope.revision + 1;
  const removed = unset.length === 0 ? 0 : await sql.deleteVariables(tx, scope.id, unset);
  const rows = set.length === 0 ? [] : await sql.upsertVariables(tx, scope.id, revision, set);
  const total = await sql.finishScope(tx, scope.id, revision);
  if (total > MAX_VARIABLES && set.length > 0)
    throw refuse(403, "quota_exceeded", `A scope holds at most ${MAX_VARIABLES} variables.`, {
      context: { limit: MAX_VARIABLES },
    });
  const aliases = set.filter((row) => row.aliasTarget !== null).map((row) => row.name);
  return { rows, removed, warnings: await aliasWarnings(tx, scope, aliases) };
}

async function refuseCycle(tx: Tx, scope: Scope, { set, unset, action }: Decision): Promise<void> {
  if (set.every((row) => row.aliasTarget === null)) return;
  const gone = new Set(unset);
  const stored = referenced(scope, await sql.chainRows(tx, chainOf(scope)));
  const rows = stored.filter((row) => row.scopeId !== scope.id || !gone.has(row.name));
  const cycle = aliasCycle(rows, ...set.map((row) => ({ ...row, scope: scope.kind })));
  if (!cycle) return;
  const index = set.findIndex((row) => cycle.includes(row.name));
  const path = action === "variable.batch" ? `set[${index}].aliasTarget` : "aliasTarget";
  throw invalid(
    path,
    "alias_cycle",
    `The aliases ${cycle.join(" → ")} → ${cycle[0]} would lead in a circle.`,
  );
}

// The scopes keep sums of their sizes, so most writes are over with one statement. Rows are read, without
// values, only for the sets that could be too large.
async function refuseLargeSets(tx: Tx, scope: Scope, decision: Write): Promise<void> {
  const leaves = await sql.leavesOver(tx, scope.id, growthOf(decision), MAX_SET_BYTES);
  if (leaves.length === 0) return;
  const chains = leaves.map((leaf) => [leaf.projectId, leaf.environmentId, leaf.serviceId] as const);
  const ids = [...new Set(chains.flat())].filter((id) => id !== null);
  const stored = await sql.chainRows(tx, ids);
  const byScope = Map.groupBy(stored, (row) => row.scopeId);
  const environments = [...new Set(leaves.map((leaf) => leaf.environmentId))].filter((id) => id !== null);
  const names = connectedServices([...stored, ...decision.set]);
  const addonList = names.length === 0 ? [] : await addonRows(tx, environments, names);
  const byEnvironment = Map.groupBy(addonList, (row) => row.environmentId);
  const at = { scope: scope.kind, scopeId: scope.id };
  for (const [index, leaf] of leaves.entries()) {
    const kinds = ["project", "environment", "service"] as const;
    const rows: SizedRow[] = chains[index]!.flatMap((id, depth) =>
      (byScope.get(id ?? "") ?? []).map((row) => ({ ...row, scope: kinds[depth]! })),
    );
    const addons = addonsByName(byEnvironment.get(leaf.environmentId ?? "") ?? [], (row) => String(row.size));
    const whose = leaf.serviceId
      ? `service ${leaf.name}`
      : `a new service of this ${leaf.environmentId ? "environment" : "project"}`;
    refuseLarger(rows, at, decision, addons, whose);
  }
}
