import fc from "fast-check";
import { expect, test } from "vitest";
import { type Addon, resolve, resolvedSize } from "../resolve/resolve.ts";
import type { NewVariable } from "../rows/sql.ts";
import { afterWrite, growthOf, type SizedRow, sizeOf } from "./set-size.ts";

const names = fc.constantFrom("A", "B", "C", "D", "E");
const source = fc.oneof(
  fc.nat(50).map((size) => ({ size, aliasTarget: null, connectionService: null, connectionKey: null })),
  names.map((aliasTarget) => ({ size: 0, aliasTarget, connectionService: null, connectionKey: null })),
  fc.constant({ size: 0, aliasTarget: null, connectionService: "db", connectionKey: "URL" }),
);
const rowsOf = (scope: SizedRow["scope"]) =>
  fc
    .uniqueArray(fc.tuple(names, source), { selector: ([name]) => name })
    .map((list) => list.map(([name, from]): SizedRow => ({ name, scope, scopeId: scope, ...from })));
const chain = fc.tuple(rowsOf("project"), rowsOf("environment"), rowsOf("service"));
const addons = new Map<string, Addon<number>>([
  ["db", { type: "postgres", ready: true, keys: new Map([["URL", { value: 30, sensitive: true }]]) }],
]);
const refs = (rows: SizedRow[]) => rows.filter((row) => row.aliasTarget || row.connectionService).length;
const bytes = (rows: SizedRow[]) => rows.reduce((sum, row) => sum + row.name.length + row.size, 0);

test("sizes alone give the size of the resolved plaintext", () => {
  fc.assert(
    fc.property(chain, (scopes) => {
      const rows = scopes.flat();
      const literal = rows.map((row) => ({ ...row, id: "i", sensitive: false, value: "x".repeat(row.size) }));
      const keys = new Map([["URL", { value: "x".repeat(30), sensitive: true }]]);
      const { data } = resolve({ rows: literal, addons: new Map([["db", { ...addons.get("db")!, keys }]]) });
      expect(sizeOf(rows, addons)).toBe(resolvedSize(data));
    }),
  );
});

test("the bound that the database checks is never below the size after the write", () => {
  fc.assert(
    fc.property(chain, rowsOf("service"), fc.subarray(["A", "B", "C", "D", "E"]), (scopes, set, unset) => {
      const rows = scopes.flat();
      const written = set.map((row) => ({
        ...row,
        sealed: row.aliasTarget || row.connectionService ? null : Buffer.of(),
      }));
      const replaced = scopes[2].map((row) => ({
        ...row,
        id: "",
        sensitive: false,
        literal: refs([row]) === 0,
      }));
      const write = {
        set: written as unknown as NewVariable[],
        unset: unset.filter((name) => !set.some((row) => row.name === name)),
        replaced,
      };
      const growth = growthOf(write);
      const widest = Math.max(30, growth.widest, ...rows.map((row) => row.size));
      const bound = bytes(rows) + growth.bytes + (refs(rows) + growth.refs) * widest;
      const after = sizeOf(afterWrite(rows, { scope: "service", scopeId: "service" }, write), addons);
      expect(after).toBeLessThanOrEqual(bound);
    }),
  );
});
