import { NEARNESS, type ScopeKind } from "../scopes/scope.ts";

type AliasRow = { name: string; scope: ScopeKind; aliasTarget?: string | null };

/**
 * Returns the names of a cycle that writing `candidates` (all of one scope) would close, in the order they point to each
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
 * Returns the names of a cycle that one of `starts` is in, in the order they point to each other, or undefined.
 * `targetOf` returns what a name points to, if it is an alias.
 */
export function cycleThrough(
  starts: ReadonlySet<string>,
  targetOf: (name: string) => string | null | undefined,
): string[] | undefined {
  const followed = new Set<string>();
  for (const start of starts) {
    const path = new Set<string>();
    let name: string | null | undefined = start;
    while (name != null && !followed.has(name)) {
      followed.add(name);
      path.add(name);
      name = targetOf(name);
    }
    if (name == null || !path.has(name)) continue;
    const steps = [...path];
    const cycle = steps.slice(steps.indexOf(name));
    if (cycle.some((member) => starts.has(member))) return cycle;
  }
  return undefined;
}
