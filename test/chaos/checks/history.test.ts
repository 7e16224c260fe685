import fc from "fast-check";
import { expect, test } from "vitest";
import { type Access, violations } from "./history.ts";

const access = (kind: Access["kind"], value: string, start: number, end: number): Access => ({
  kind,
  key: "A",
  value,
  start,
  end,
});

test.each<[string, Access[]]>([
  ["a stale read", [access("write", "1", 0, 1), access("write", "2", 2, 3), access("read", "1", 4, 5)]],
  [
    "a value that comes back",
    [
      access("write", "1", 0, 9),
      access("read", "1", 1, 2),
      access("write", "2", 3, 4),
      access("read", "2", 4.5, 5),
      access("read", "1", 6, 7),
    ],
  ],
  ["a value nobody wrote", [access("read", "1", 0, 1)]],
  ["a read before the write", [access("read", "1", 0, 1), access("write", "1", 2, 3)]],
])("%s is found", (_, history) => {
  expect(violations(history)).toHaveLength(1);
});

test.each<[string, Access[]]>([
  [
    "reads during writes see either value",
    [
      access("write", "1", 0, 1),
      access("write", "2", 2, 9),
      access("read", "1", 3, 4),
      access("read", "2", 5, 6),
    ],
  ],
  [
    "a write without an answer may come late",
    [
      access("write", "1", 0, 1),
      access("write", "2", 1, Infinity),
      access("read", "1", 5, 6),
      access("read", "2", 7, 8),
    ],
  ],
  ["or never", [access("write", "1", 0, 1), access("write", "2", 1, Infinity), access("read", "1", 9, 10)]],
])("%s", (_, history) => {
  expect(violations(history)).toEqual([]);
});

/** Tries every order that agrees with time, unanswered writes included or not. */
function isLinearizable(left: Access[], value: string | undefined): boolean {
  if (left.every(({ end }) => end === Infinity)) return true;
  const firstEnd = Math.min(...left.map(({ end }) => end));
  return left.some((next, at) => {
    if (next.start > firstEnd || (next.kind === "read" && next.value !== value)) return false;
    return isLinearizable(left.toSpliced(at, 1), next.kind === "write" ? next.value : value);
  });
}

test("it agrees with a search of all orders on random histories", () => {
  const span = fc.tuple(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 1, max: 8 }));
  const random = fc.tuple(
    fc.array(fc.tuple(span, fc.boolean()), { minLength: 1, maxLength: 3 }),
    fc.array(fc.tuple(span, fc.nat({ max: 2 })), { maxLength: 4 }),
  );
  let bad = 0;
  fc.assert(
    fc.property(random, ([writes, reads]) => {
      // No two times are equal: of those the order is open.
      let tick = 0;
      const unique = (time: number) => time + ++tick / 1000;
      const history = writes.map(([[start, length], lost], value) =>
        access("write", String(value), unique(start), lost ? Infinity : unique(start + length)),
      );
      for (const [[start, length], value] of reads)
        if (value < writes.length)
          history.push(access("read", String(value), unique(start), unique(start + length)));
      const expected = isLinearizable(history, undefined);
      if (!expected) bad++;
      expect(violations(history).length === 0).toBe(expected);
    }),
    { numRuns: 3_000 },
  );
  expect(bad).toBeGreaterThan(100);
});
