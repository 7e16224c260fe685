import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CHECKS } from "../checks/check.ts";
import { seededFaults } from "../seeded-faults.ts";
import { plant } from "./plant.ts";

const root = join(import.meta.dirname, "../../..");

test.each(seededFaults)(
  "$name: what it replaces is in the product, once, and what has to find it exists",
  (fault) => {
    if (!("changes" in fault)) return;
    for (const [file, changes] of Map.groupBy(fault.changes, (one) => one.file)) {
      const source = readFileSync(join(root, file), "utf8");
      expect(plant(source, changes)).not.toBe(source);
    }
    const { foundBy } = fault;
    const names = CHECKS.map(({ name }) => name);
    if ("checks" in foundBy) expect(names).toEqual(expect.arrayContaining(foundBy.checks));
    else expect(readFileSync(join(root, foundBy.test), "utf8")).toContain(`"${foundBy.named}"`);
  },
);

test("a text that is there twice, or not at all, is not replaced", () => {
  const change = (from: string) => [{ file: "a.ts", from, to: "b" }];
  expect(plant("one two", change("one"))).toBe("b two");
  expect(() => plant("one one", change("one"))).toThrow("2 times");
  expect(() => plant("two", change("one"))).toThrow("0 times");
});
