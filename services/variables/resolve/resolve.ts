import { NEARNESS, type ScopeKind } from "../scopes/scope.ts";

/**
 * A stored variable, with exactly one source: a literal (`value`), a connection (both members) or an alias.
 * Columns of the other kinds may be absent or null, and `value` too when only names are wanted. `T` is what
 * stands for a value: plaintext, something sealed, a size. It is passed through, never inspected.
 */
export type VariableRow<T = string> = {
  id: string;
  name: string;
  scope: ScopeKind;
  scopeId: string;
  sensitive: boolean;
  value?: T | null;
  connectionService?: string | null;
  connectionKey?: string | null;
  aliasTarget?: string | null;
};

/** A service of the environment, as a connection sees it. `keys` holds what a managed addon has published. */
export type Addon<T = string> = {
  type: "web" | "worker" | "cron" | "postgres" | "redis";
  ready: boolean;
  keys: ReadonlyMap<string, { value?: T; sensitive: boolean }>;
};

/** The services of an environment by name. */
export type Addons<T = string> = { get(service: string): Addon<T> | undefined };

/** Rows of the one project, environment and service (in any order), and the environment's services. */
type ResolveInput<T = string> = { rows: readonly VariableRow<T>[]; addons: Addons<T> };

/** Why a name is missing from the set (docs/variables.md#dangling, the closed list). */
export type DanglingReason =
  | "service_not_found"
  | "service_not_addon"
  | "key_not_found"
  | "service_not_ready"
  | "alias_target_not_found"
  | "alias_target_dangling"
  | "alias_cycle"
  | "alias_depth_exceeded";

type Source = { connection?: { service: string; key: string }; aliasTarget?: string };

/** An entry of the set. `value` is present even when sensitive: reads must withhold it. */
export type ResolvedEntry<T = string> = Source & {
  name: string;
  sensitive: boolean;
  value?: T;
  source: ScopeKind;
  sourceId: string;
  sourceScopeId: string;
  shadows: { scope: ScopeKind; scopeId: string; id: string }[];
};

type DanglingEntry = Source & { name: string; reason: DanglingReason };

export type Resolved<T = string> = { data: ResolvedEntry<T>[]; dangling: DanglingEntry[] };

type Outcome<T> =
  | { reason: DanglingReason }
  | { reason?: undefined; value: T | undefined; sensitive: boolean; depth: number };

const MAX_ALIAS_DEPTH = 10;
/** Keys whose values are secrets, even if their addon says otherwise (docs/variables.md#secrets-and-sensitive-values). */
export const DERIVED_SENSITIVE = new Set(["PASSWORD", "URL", "POOLED_URL"]);

/**
 * Returns the effective set of one service (docs/variables.md#resolved-set). Every name of `rows` is in
 * exactly one of `data` and `dangling`; both are sorted by name in code unit order. Linear in the rows.
 *
 * An alias takes the value that the resolving service sees under the target's name: the lookup starts at the
 * service and goes outwards, the nearest row wins, wherever the alias itself is defined. It never reaches past the
 * nearest row to a shadowed one, so an alias that comes back to its own name is a cycle, not the wider value.
 * - project `DATABASE` → `PRIMARY_URL`, project `PRIMARY_URL=a`, one environment `PRIMARY_URL=b`: services of
 *   that environment get `DATABASE=b`, all others `DATABASE=a`.
 * - project `A` → `B`, project `B=a`, one service `B` → `A`: in that service both are `alias_cycle`; `B=a` is
 *   shadowed there and does not come back through `A`.
 *
 * Ten aliases in a row resolve. A longer chain is `alias_depth_exceeded`, and so is every alias behind it;
 * behind any other failure an alias is `alias_target_dangling`.
 */
export function resolve<T>({ rows, addons }: ResolveInput<T>): Resolved<T> {
  const effective = nearestFirst(rows);
  const outcomes = new Map<string, Outcome<T>>();
  const resolved: Resolved<T> = { data: [], dangling: [] };
  for (const name of [...effective.keys()].sort()) {
    const [row, ...shadowed] = effective.get(name)! as [VariableRow<T>, ...VariableRow<T>[]];
    const outcome = resolveName(name, effective, addons, outcomes);
    if (outcome.reason !== undefined) {
      resolved.dangling.push({ name, ...sourceOf(row), reason: outcome.reason });
      continue;
    }
    resolved.data.push({
      name,
      sensitive: outcome.sensitive,
      ...(outcome.value === undefined ? undefined : { value: outcome.value }),
      source: row.scope,
      sourceId: row.id,
      sourceScopeId: row.scopeId,
      ...sourceOf(row),
      shadows: shadowed.map(({ scope, scopeId, id }) => ({ scope, scopeId, id })),
    });
  }
  return resolved;
}

// The rows of each name: the effective one first, then those that it shadows.
function nearestFirst<T>(rows: readonly VariableRow<T>[]): Map<string, VariableRow<T>[]> {
  const byName = new Map<string, VariableRow<T>[]>();
  for (const row of rows) {
    const sameName = byName.get(row.name);
    if (sameName === undefined) byName.set(row.name, [row]);
    else sameName.push(row);
  }
  for (const sameName of byName.values()) {
    if (sameName.length > 1) sameName.sort((a, b) => NEARNESS[a.scope] - NEARNESS[b.scope]);
  }
  return byName;
}

// Follows aliases from one name until an outcome is known, then sets the outcome of every name on the path.
function resolveName<T>(
  start: string,
  effective: ReadonlyMap<string, VariableRow<T>[]>,
  addons: Addons<T>,
  outcomes: Map<string, Outcome<T>>,
): Outcome<T> {
  const path = new Set<string>();
  let name = start;
  while (!outcomes.has(name)) {
    const row = effective.get(name)?.[0];
    if (row === undefined) break;
    if (row.aliasTarget == null) {
      outcomes.set(name, valueOutcome(row, addons));
      break;
    }
    if (path.has(name)) {
      const steps = [...path];
      for (const member of steps.slice(steps.indexOf(name))) outcomes.set(member, { reason: "alias_cycle" });
      break;
    }
    path.add(name);
    name = row.aliasTarget;
  }
  let outcome = outcomes.get(name);
  for (const alias of [...path].reverse()) {
    outcome = outcomes.get(alias) ?? aliasOutcome(outcome);
    outcomes.set(alias, outcome);
  }
  return outcomes.get(start)!;
}

// The outcome of an alias, given that of its target (undefined: no such variable).
function aliasOutcome<T>(target: Outcome<T> | undefined): Outcome<T> {
  if (target === undefined) return { reason: "alias_target_not_found" };
  if (target.reason === "alias_depth_exceeded") return target;
  if (target.reason !== undefined) return { reason: "alias_target_dangling" };
  if (target.depth === MAX_ALIAS_DEPTH) return { reason: "alias_depth_exceeded" };
  return { value: target.value, sensitive: target.sensitive, depth: target.depth + 1 };
}

function valueOutcome<T>(row: VariableRow<T>, addons: Addons<T>): Outcome<T> {
  const { connectionService: service, connectionKey: key } = row;
  if (service == null || key == null) {
    return { value: row.value ?? undefined, sensitive: row.sensitive, depth: 0 };
  }
  const addon = addons.get(service);
  if (addon === undefined) return { reason: "service_not_found" };
  if (addon.type !== "postgres" && addon.type !== "redis") return { reason: "service_not_addon" };
  const published = addon.keys.get(key);
  // An addon publishes all its keys at once: one that is not ready may still publish this key only if it has none yet.
  if (published === undefined && (addon.ready || addon.keys.size > 0)) return { reason: "key_not_found" };
  if (published === undefined || !addon.ready) return { reason: "service_not_ready" };
  return { value: published.value, sensitive: published.sensitive || DERIVED_SENSITIVE.has(key), depth: 0 };
}

function sourceOf(row: VariableRow<unknown>): Source {
  if (row.aliasTarget != null) return { aliasTarget: row.aliasTarget };
  if (row.connectionService == null || row.connectionKey == null) return {};
  return { connection: { service: row.connectionService, key: row.connectionKey } };
}

/** Returns the size of a resolved set in bytes: UTF-8 of all names and values (docs/variables.md#limits). */
export function resolvedSize(data: readonly Pick<ResolvedEntry, "name" | "value">[]): number {
  let bytes = 0;
  for (const { name, value } of data) bytes += Buffer.byteLength(name) + Buffer.byteLength(value ?? "");
  return bytes;
}
