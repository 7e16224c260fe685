import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { alias, anyRows, literal, name, reasons, resolved } from "../resolve/testing.ts";
import { aliasCycle } from "./alias-cycle.ts";

describe("a write that closes a cycle of aliases", () => {
  test("is found in its own scope and through the wider ones, with the names on its path", () => {
    expect(aliasCycle([alias("project", "B", "A")], alias("project", "A", "B"))).toEqual(["A", "B"]);
    const stored = [alias("project", "B", "C"), alias("environment", "C", "A")];
    expect(aliasCycle(stored, alias("service", "A", "B"))).toEqual(["A", "B", "C"]);
    expect(aliasCycle([], alias("project", "A", "A"))).toEqual(["A"]);
  });

  test("is not one when a nearer row only would close it, or an override breaks it", () => {
    expect(aliasCycle([alias("environment", "B", "A")], alias("project", "A", "B"))).toBeUndefined();
    const broken = [alias("project", "B", "A"), literal("environment", "B", "v")];
    expect(aliasCycle(broken, alias("environment", "A", "B"))).toBeUndefined();
    expect(aliasCycle([alias("project", "B", "A")], literal("project", "A", "v"))).toBeUndefined();
  });

  test("ignores the row that it replaces", () => {
    const stored = [alias("project", "A", "B"), literal("project", "B", "v"), literal("project", "C", "v")];
    expect(aliasCycle(stored, alias("project", "B", "A"))).toEqual(["B", "A"]);
    expect(
      aliasCycle([alias("project", "B", "A"), alias("project", "A", "B")], alias("project", "A", "C")),
    ).toBe(undefined);
  });

  test("is not one when it only leads into an existing cycle", () => {
    const stored = [alias("project", "B", "C"), alias("environment", "C", "B")];
    expect(aliasCycle(stored, alias("environment", "A", "B"))).toBeUndefined();
  });

  test("is found among the rows of one batch", () => {
    const batch = [literal("project", "X", "v"), alias("project", "A", "B"), alias("project", "B", "A")];
    expect(aliasCycle([], ...batch)).toEqual(["A", "B"]);
    expect(aliasCycle(batch.slice(1), literal("project", "X", "v"))).toBeUndefined();
  });

  test("agrees with resolution at service scope: the candidate would be alias_cycle", () => {
    const writes = fc.tuple(anyRows, name, name).filter(([, from, to]) => from !== to);
    fc.assert(
      fc.property(writes, ([rows, from, to]) => {
        const candidate = alias("service", from, to);
        const others = rows.filter((each) => each.scope !== "service" || each.name !== from);
        const cycle = aliasCycle(rows, candidate);
        expect(cycle !== undefined).toBe(reasons(resolved(...others, candidate))[from] === "alias_cycle");
        if (cycle !== undefined) expect(cycle[0]).toBe(from);
      }),
      { numRuns: 500 },
    );
  });
});
