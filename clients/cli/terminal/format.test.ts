import { expect, test } from "vitest";
import { duration } from "./format.ts";

test("a duration is in units that a person reads, however long it is", () => {
  const MINUTE = 60_000;
  const HOUR = 60 * MINUTE;
  const DAY = 24 * HOUR;
  const said = [-1, 6_240, MINUTE, 59 * MINUTE + 59_999, HOUR, 47 * HOUR + 5 * MINUTE, 7 * DAY - 1];
  expect(said.map(duration)).toEqual([
    ...["0.0 s", "6.2 s", "1 min 0 s", "59 min 59 s"],
    ...["1 h 0 min", "47 h 5 min", "6 days 23 h"],
  ]);
});
