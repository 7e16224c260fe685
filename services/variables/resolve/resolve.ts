import { createHmac } from "node:crypto";

export type Scope = "project" | "environment" | "service";

/**
 * A stored variable, with exactly one source: a literal (`value`, plaintext), a connection (both members) or an
 * alias. Columns of the other kinds may be absent or null. `value` is absent too when only names are wanted.
 */
export type VariableRow = {
  id: string;
  name: string;
  scope: Scope;
  scopeId: string;
  sensitive: boolean;
  value?: string | null;
  connectionService?: string | null;
  connectionKey?: string | null;
  aliasTarget?: string | null;
};

/** A service of the environment, as a connection sees it. `keys` holds what a managed addon has published. */
export type Addon = {
  type: "web" | "worker" | "postgres" | "redis";
  ready: boolean;
  keys: ReadonlyMap<string, { value?: string; sensitive: boolean }>;
};

/** Rows of the one project, environment and service (in any order), and the environment's services by name. */
export type ResolveInput = {
  rows: readonly VariableRow[];
  addons: { get(service: string): Addon | undefined };
};

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

/** An entry of the set. `value` is plaintext also when sensitive: a caller that answers reads withholds it. */
export type ResolvedEntry = Source & {
  name: string;
  sensitive: boolean;
  value?: string;
  source: Scope;
  sourceId: string;
  sourceScopeId: string;
  shadows: { scope: Scope; scopeId: string; id: string }[];
};

export type DanglingEntry = Source & { name: string; reason: DanglingReason };

export type Resolved = { data: ResolvedEntry[]; dangling: DanglingEntry[] };

type Outcome =
  | { reason: DanglingReason }
  | { reason?: undefined; value: string | undefined; sensitive: boolean; depth: number };

const MAX_ALIAS_DEPTH = 10;
const NEARNESS: Record<Scope, number> = { service: 0, environment: 1, project: 2 };
/** Keys whose values are secrets, whatever their addon says of them (docs/variables.md#sensitive). */
export const DERIVED_SENSITIVE = new Set(["PASSWORD", "URL"]);

/**
 * The effective set of one service (docs/variables.md#resolved-set). Every name of `rows` is in
 * exactly one of `data` and `dangling`; both are sorted by name in code unit order. Linear in the rows.
 *
 * An alias takes the value that the resolving service sees under the target's name: the lookup starts at the
 * service and goes outwards, the nearest row wins, wherever the alias itself stands. It never reaches past the
 * nearest row to a shadowed one, so an alias that comes back to its own name is a cycle and not the wider value.
 * - project `DATABASE` → `PRIMARY_URL`, project `PRIMARY_URL=a`, one environment `PRIMARY_URL=b`: services of
 *   that environment get `DATABASE=b`, all others `DATABASE=a`.
 * - project `A` → `B`, project `B=a`, one service `B` → `A`: in that service both are `alias_cycle`; `B=a` is
 *   shadowed there and does not come back through `A`.
 *
 * Ten aliases in a row resolve. An alias with a longer way is `alias_depth_exceeded`, and so is every alias behind
 * it; behind any other failure an alias is `alias_target_dangling`.
 */
export function resolve({ rows, addons }: ResolveInput): Resolved {
  const effective = nearestFirst(rows);
  const outcomes = new Map<string, Outcome>();
  const resolved: Resolved = { data: [], dangling: [] };
  for (const name of [...effective.keys()].sort()) {
    const [row, ...shadowed] = effective.get(name)! as [VariableRow, ...VariableRow[]];
    const outcome = settle(name, effective, addons, outcomes);
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

// The rows of each name, the one that counts first and behind it what it shadows.
function nearestFirst(rows: readonly VariableRow[]): Map<string, VariableRow[]> {
  const byName = new Map<string, VariableRow[]>();
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

// Follows aliases from one name until the outcome is known, then gives every name on the way its own outcome.
function settle(
  start: string,
  effective: ReadonlyMap<string, VariableRow[]>,
  addons: ResolveInput["addons"],
  outcomes: Map<string, Outcome>,
): Outcome {
  const way = new Set<string>();
  let name = start;
  while (!outcomes.has(name)) {
    const row = effective.get(name)?.[0];
    if (row === undefined) break;
    if (row.aliasTarget == null) {
      outcomes.set(name, direct(row, addons));
      break;
    }
    if (way.has(name)) {
      const steps = [...way];
      for (const member of steps.slice(steps.indexOf(name))) outcomes.set(member, { reason: "alias_cycle" });
      break;
    }
    way.add(name);
    name = row.aliasTarget;
  }
  let outcome = outcomes.get(name);
  for (const alias of [...way].reverse()) {
    outcome = outcomes.get(alias) ?? through(outcome);
    outcomes.set(alias, outcome);
  }
  return outcomes.get(start)!;
}

// What an alias becomes, given the outcome of its target (undefined: no such variable).
function through(target: Outcome | undefined): Outcome {
  if (target === undefined) return { reason: "alias_target_not_found" };
  if (target.reason === "alias_depth_exceeded") return target;
  if (target.reason !== undefined) return { reason: "alias_target_dangling" };
  if (target.depth === MAX_ALIAS_DEPTH) return { reason: "alias_depth_exceeded" };
  return { value: target.value, sensitive: target.sensitive, depth: target.depth + 1 };
}

function direct(row: VariableRow, addons: ResolveInput["addons"]): Outcome {
  const { connectionService: service, connectionKey: key } = row;
  if (service == null || key == null) {
    return { value: row.value ?? undefined, sensitive: row.sensitive, depth: 0 };
  }
  const addon = addons.get(service);
  if (addon === undefined) return { reason: "service_not_found" };
  if (addon.type === "web" || addon.type === "worker") return { reason: "service_not_addon" };
  const published = addon.keys.get(key);
  // Before an addon is ready its keys may be incomplete only as long as it has published none at all.
  if (published === undefined && (addon.ready || addon.keys.size > 0)) return { reason: "key_not_found" };
  if (published === undefined || !addon.ready) return { reason: "service_not_ready" };
  return { value: published.value, sensitive: published.sensitive || DERIVED_SENSITIVE.has(key), depth: 0 };
}

function sourceOf(row: VariableRow): Source {
  if (row.aliasTarget != null) return { aliasTarget: row.aliasTarget };
  if (row.connectionService == null || row.connectionKey == null) return {};
  return { connection: { service: row.connectionService, key: row.connectionKey } };
}

type AliasRow = Pick<VariableRow, "name" | "scope" | "aliasTarget">;

/**
 * The names of a cycle that writing `candidates` (all of one scope) would close, in the order they point to each
 * other, or undefined. `rows` is what is stored in the scope chain of that scope: the project alone, project and
 * environment, or all three; nearer rows are ignored, and candidates replace rows of their scope and name. A cycle
 * that is there already and passes through no candidate does not count. An alias to itself is a cycle of one.
 */
export function aliasCycle(rows: readonly AliasRow[], ...candidates: AliasRow[]): string[] | undefined {
  const limit = Math.min(...candidates.map(({ scope }) => NEARNESS[scope]));
  const nearest = new Map<string, AliasRow>();
  for (const row of [...rows, ...candidates]) {
    if (NEARNESS[row.scope] < limit) continue;
    const other = nearest.get(row.name);
    if (other === undefined || NEARNESS[row.scope] <= NEARNESS[other.scope]) nearest.set(row.name, row);
  }
  return cycleThrough(new Set(candidates.map(({ name }) => name)), (name) => nearest.get(name)?.aliasTarget);
}

/**
 * The names of a cycle that one of `starts` is in, in the order they point to each other, or undefined.
 * `targetOf` gives what a name points to, if it is an alias.
 */
export function cycleThrough(
  starts: ReadonlySet<string>,
  targetOf: (name: string) => string | null | undefined,
): string[] | undefined {
  const followed = new Set<string>();
  for (const start of starts) {
    const way = new Set<string>();
    let name: string | null | undefined = start;
    while (name != null && !followed.has(name)) {
      followed.add(name);
      way.add(name);
      name = targetOf(name);
    }
    if (name == null || !way.has(name)) continue;
    const steps = [...way];
    const cycle = steps.slice(steps.indexOf(name));
    if (cycle.some((member) => starts.has(member))) return cycle;
  }
  return undefined;
}

/** The size of a resolved set in bytes: UTF-8 of all names and values (docs/variables.md#limits). */
export function resolvedSize(data: readonly Pick<ResolvedEntry, "name" | "value">[]): number {
  let bytes = 0;
  for (const { name, value } of data) bytes += Buffer.byteLength(name) + Buffer.byteLength(value ?? "");
  return bytes;
}

/**
 * HMAC-SHA256 (hex) over the names and values of a set, in any order: two sets have the same fingerprint under a
 * key exactly when a process would see the same variables. Without the key it says nothing about the values.
 * Throws TypeError when an entry has no value, for a set read by names only cannot be compared.
 */
export function fingerprint(
  data: readonly Pick<ResolvedEntry, "name" | "value">[],
  key: Parameters<typeof createHmac>[1],
): string {
  const pairs = data.map(({ name, value }) => {
    if (value === undefined) throw new TypeError(`the variable ${name} was resolved without its value`);
    return [name, value] as const;
  });
  pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return createHmac("sha256", key).update(JSON.stringify(pairs)).digest("hex");
}
