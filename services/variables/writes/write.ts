import type { HandlerContext } from "@connectrpc/connect";
import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { createKeyedMutex } from "../../kit/concurrency/keyed-mutex.ts";
import { auditRecord } from "../../kit/events/audit.ts";
import { emitAll, eventOf } from "../../kit/events/outbox.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import type { Pool, Tx } from "../../kit/postgres/db.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { invalid, notFound, refuse, unavailable } from "../../kit/rpc/refusals.ts";
import { listAddonKeys } from "../addons/sql.ts";
import { aliasCycle } from "../aliases/alias-cycle.ts";
import { type AliasWarning, aliasWarnings } from "../aliases/alias-warnings.ts";
import { addonsByName, connectedServices } from "../resolve/chain.ts";
import * as sql from "../rows/sql.ts";
import { listChainRows } from "../rows/sql.ts";
import { recordChanges } from "../scopes/changes-sql.ts";
import { chainOf, kindInChain, type Scope, type ScopePath } from "../scopes/scope.ts";
import { rereadScope } from "../scopes/scopes.ts";
import { lockProject } from "../scopes/sql.ts";
import { listSetsOver, updateScopeTotals } from "../scopes/totals-sql.ts";
import { environmentWarnings } from "./environment-warnings.ts";
import { growthOf, MAX_SET_BYTES, refuseLarger, type SizedRow, type Write } from "./set-size.ts";

const MAX_VARIABLES = 1000;

/** What a write does, decided under the lock. Without rows to store or names to remove it has no effect. */
export type Decision = Write & { action: string; target: string; metadata?: Record<string, string> };
export type Written = { rows: sql.SealedVariable[]; removed: number; warnings: AliasWarning[] };

/** How long a write waits for other writes to its project. */
const WAIT_MS = 15_000;
const writes = createKeyedMutex();

/** Runs the writes to a project one at a time: waiting in the database for its lock would take all connections. */
function inTurn<T>(projectId: string, work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + WAIT_MS;
  return writes.run(projectId, async () => {
    if (performance.now() > deadline) throw unavailable();
    return work();
  });
}

/**
 * Writes to one scope: `decide` under the project's lock, then rows, revision, audit record and event, in one
 * transaction. Returns what `answer` returns. Throws what `decide` throws, 404 when the scope was deleted, 403
 * quota_exceeded, 422 alias_cycle and resolved_set_too_large.
 */
export async function write<T extends object>(
  deps: { pool: Pool },
  at: { path: ScopePath; scope: Scope; ctx: HandlerContext },
  decide: (tx: Tx) => Promise<Decision>,
  answer: (tx: Tx, written: Written) => Promise<T>,
): Promise<T> {
  const { projectId } = at.scope;
  return inTurn(projectId, () =>
    effect(deps.pool, at.ctx, async (tx) => {
      // In flight at once, which saves a round trip; they run in order, so the scope is read under the lock.
      const [, scope] = await Promise.all([lockProject(tx, projectId), rereadScope(tx, at.path, at.scope)]);
      if (scope?.id !== at.scope.id) throw notFound(at.scope.kind);
      const decision = await decide(tx);
      if (decision.set.length === 0 && decision.unset.length === 0)
        return answer(tx, { rows: [], removed: 0, warnings: [] });
      await refuseCycle(tx, scope, decision);
      await refuseLargeSets(tx, scope, decision);
      const written = await store(tx, scope, decision);
      const names = [...decision.set.map((row) => row.name), ...decision.unset];
      const { accountId, kind, id } = scope;
      const { action, target } = decision;
      const metadata = { ...auditMetadata(scope), ...decision.metadata };
      const revision = BigInt(scope.revision + 1);
      await emitAll(tx, [
        auditRecord(who(at.ctx), { service: "variables", accountId, action, target, metadata }),
        eventOf(VariablesChangedSchema, accountId, { accountId, scope: kind, scopeId: id, names, revision }),
      ]);
      return answer(tx, written);
    }),
  );
}

/** Returns the scope of a variable for audit records. */
export function auditMetadata(scope: Scope): Record<string, string> {
  const { kind, id, projectId, environmentId } = scope;
  return { scope: kind, scopeId: id, projectId, ...(environmentId && { environmentId }) };
}

async function store(tx: Tx, scope: Scope, { set, unset }: Write): Promise<Written> {
  const revision = scope.revision + 1;
  // In flight at once: the lock is held for one round trip instead of three.
  const names = [...set.map((row) => row.name), ...unset];
  const [removed, stored, total] = await Promise.all([
    unset.length === 0 ? 0 : sql.deleteVariables(tx, scope.id, unset),
    set.length === 0 ? [] : sql.upsertVariables(tx, scope.id, revision, set),
    updateScopeTotals(tx, scope.id, revision),
    recordChanges(tx, scope.id, revision, names),
  ]);
  if (total > MAX_VARIABLES && set.length > 0)
    throw refuse(403, "quota_exceeded", `A scope holds at most ${MAX_VARIABLES} variables.`, {
      context: { limit: MAX_VARIABLES },
    });
  const given = new Map(set.map((row) => [row.name, row]));
  const rows = stored.map((row) => ({ ...given.get(row.name)!, ...row }));
  const aliases = set.filter((row) => row.aliasTarget !== null).map((row) => row.name);
  const warnings = [
    ...(await aliasWarnings(tx, scope, aliases)),
    ...(await environmentWarnings(tx, scope, set)),
  ];
  return { rows, removed, warnings };
}

async function refuseCycle(tx: Tx, scope: Scope, { set, unset, action }: Decision): Promise<void> {
  if (set.every((row) => row.aliasTarget === null)) return;
  const removed = new Set(unset);
  const stored = await listChainRows(tx, chainOf(scope));
  const rows = stored
    .filter((row) => row.scopeId !== scope.id || !removed.has(row.name))
    .map((row) => ({ ...row, scope: kindInChain(scope, row.scopeId) }));
  const cycle = aliasCycle(rows, ...set.map((row) => ({ ...row, scope: scope.kind })));
  if (!cycle) return;
  const index = set.findIndex((row) => cycle.includes(row.name));
  const path = action === "variable.batch" ? `set[${index}].aliasTarget` : "aliasTarget";
  throw invalid(path, "alias_cycle", `The aliases ${cycle.join(" → ")} → ${cycle[0]} would form a cycle.`);
}

// The scopes keep sums of their sizes, so most writes need only one statement here. Rows are read, without
// values, only for the sets that could be too large.
async function refuseLargeSets(tx: Tx, scope: Scope, decision: Write): Promise<void> {
  const sets = await listSetsOver(tx, scope.id, growthOf(decision), MAX_SET_BYTES);
  if (sets.length === 0) return;
  const chains = sets.map((set) => [set.projectId, set.environmentId, set.serviceId] as const);
  const ids = [...new Set(chains.flat())].filter((id) => id !== null);
  const stored = await listChainRows(tx, ids);
  const byScope = Map.groupBy(stored, (row) => row.scopeId);
  const environments = [...new Set(sets.map((set) => set.environmentId))].filter((id) => id !== null);
  const names = connectedServices([...stored, ...decision.set]);
  const addonKeys = names.length === 0 ? [] : await listAddonKeys(tx, environments, names);
  const byEnvironment = Map.groupBy(addonKeys, (row) => row.environmentId);
  const at = { scope: scope.kind, scopeId: scope.id };
  const kinds = ["project", "environment", "service"] as const;
  for (const [index, { environmentId, serviceId, serviceName }] of sets.entries()) {
    const rows: SizedRow[] = chains[index]!.flatMap((id, depth) =>
      (byScope.get(id ?? "") ?? []).map((row) => ({ ...row, scope: kinds[depth]! })),
    );
    const addons = addonsByName(byEnvironment.get(environmentId ?? "") ?? [], (row) => row.size ?? 0);
    const whose = serviceId
      ? `service ${serviceName ?? serviceId}`
      : `a new service of this ${environmentId ? "environment" : "project"}`;
    refuseLarger(rows, at, decision, addons, whose);
  }
}
