import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fingerprint } from "../seal/fingerprint.ts";
import type { DanglingReason, VariableRow } from "./resolve.ts";
import { ADDONS, anyRows, resolved, SCOPES, someRows } from "./testing.ts";

type Expected = { reason: DanglingReason } | { value: string | undefined; sensitive: boolean };

/** The rules once more, the slow way: one name at a time, the whole way walked again for each. */
function model(rows: VariableRow[], start: string): Expected {
  const effective = (wanted: string) =>
    SCOPES.flatMap((scope) => rows.filter((each) => each.scope === scope && each.name === wanted))[0];
  const way = [start];
  let last = effective(start)!;
  while (last.aliasTarget !== undefined) {
    const next = effective(last.aliasTarget!);
    if (next === undefined)
      return { reason: way.length === 1 ? "alias_target_not_found" : "alias_target_dangling" };
    if (way.includes(next.name))
      return { reason: next.name === start ? "alias_cycle" : "alias_target_dangling" };
    way.push(next.name);
    last = next;
  }
  const end = modelSource(last);
  const hops = way.length - 1;
  if ("reason" in end) return hops === 0 ? end : { reason: "alias_target_dangling" };
  return hops > 10 ? { reason: "alias_depth_exceeded" } : end;
}

function modelSource({ connectionService: service, connectionKey: key, ...rest }: VariableRow): Expected {
  if (!service || !key) return { value: rest.value!, sensitive: rest.sensitive };
  switch (service) {
    case "gone":
      return { reason: "service_not_found" };
    case "api":
    case "jobs":
      return { reason: "service_not_addon" };
    case "fresh":
      return { reason: "service_not_ready" };
    case "cache":
      return { reason: key === "HOST" ? "service_not_ready" : "key_not_found" };
    default:
      if (key === "NONE") return { reason: "key_not_found" };
      return { value: ADDONS.get("db")!.keys.get(key)!.value, sensitive: key !== "HOST" };
  }
}

describe("for any three scopes", () => {
  test("every name is in exactly one of data and dangling, both sorted by name", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        const { data, dangling } = resolved(...rows);
        const inData = data.map((entry) => entry.name);
        const inDangling = dangling.map((entry) => entry.name);
        expect([...inData, ...inDangling].sort()).toEqual([...new Set(rows.map((each) => each.name))].sort());
        expect(inData).toEqual([...inData].sort());
        expect(inDangling).toEqual([...inDangling].sort());
      }),
    );
  });

  test("every value, sensitivity and dangling reason is the one of the rules followed step by step", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        const { data, dangling } = resolved(...rows);
        for (const { name, value, sensitive } of data)
          expect([name, { value, sensitive }]).toEqual([name, model(rows, name)]);
        for (const { name, reason } of dangling)
          expect([name, { reason }]).toEqual([name, model(rows, name)]);
      }),
      { numRuns: 500 },
    );
  });

  test("the nearest scope wins and the wider rows are its shadows, nearest first", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        for (const entry of resolved(...rows).data) {
          const ranked = SCOPES.flatMap((scope) =>
            rows.filter((each) => each.scope === scope && each.name === entry.name),
          );
          expect([entry.sourceId, ...entry.shadows.map(({ id }) => id)]).toEqual(ranked.map(({ id }) => id));
          expect(entry).toMatchObject({ source: ranked[0]!.scope, sourceScopeId: ranked[0]!.scopeId });
        }
      }),
    );
  });

  test("a shadowed wider row never appears in data, neither itself nor its value", () => {
    fc.assert(
      fc.property(anyRows, (rows) => {
        const { data } = resolved(...rows);
        for (const hidden of rows) {
          const nearer = rows.some(
            (each) => each.name === hidden.name && SCOPES.indexOf(each.scope) < SCOPES.indexOf(hidden.scope),
          );
          if (!nearer) continue;
          expect(data.map(({ sourceId }) => sourceId)).not.toContain(hidden.id);
          expect(data.map(({ value }) => value)).not.toContain(`value of ${hidden.id}`);
        }
      }),
    );
  });

  test("an alias has the value and the sensitivity of the variable under its target's name", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        const { data } = resolved(...rows);
        const byName = new Map(data.map((entry) => [entry.name, entry]));
        for (const { aliasTarget, value, sensitive } of data) {
          if (aliasTarget !== undefined) expect(byName.get(aliasTarget)).toMatchObject({ value, sensitive });
        }
      }),
    );
  });

  test("a sensitive value is never marked plain, however long the chain to it", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        const secrets = new Set<unknown>(["p", "t", "postgres://u:p@10.0.0.1/d"]);
        for (const { sensitive, value } of rows) if (sensitive) secrets.add(value);
        for (const { sensitive, value } of resolved(...rows).data) expect(sensitive).toBe(secrets.has(value));
      }),
    );
  });

  test("the order of the rows does not matter", () => {
    const shuffled = someRows.chain((rows) =>
      fc.tuple(fc.constant(rows), fc.shuffledSubarray(rows, { minLength: rows.length })),
    );
    fc.assert(
      fc.property(shuffled, ([rows, other]) => {
        expect(resolved(...other)).toEqual(resolved(...rows));
        expect(fingerprint(resolved(...other).data, "k")).toBe(fingerprint(resolved(...rows).data, "k"));
      }),
    );
  });
});
