import { expect, test } from "vitest";
import { legacyUntil, PRICE_VERSION } from "./price-versions.ts";

const lists = [
  { version: "2026-11", from: new Date("2026-11-01T00:00:00Z") },
  { version: "2027-03", from: new Date("2027-03-01T00:00:00Z") },
];
const end = new Date("2027-03-15T10:00:00Z");

test.each([
  ["2027-03", 1, undefined],
  ["2026-11", 1, "2027-05-15T10:00:00.000Z"],
  ["2026-11", 12, "2028-03-15T10:00:00.000Z"],
  ["1999-01", 1, undefined],
])("prices of %s, for terms of %s months, hold until %s", (version, months, until) => {
  expect(legacyUntil(version, { end, months }, lists)?.toISOString()).toBe(until);
});

test.each([
  ["2027-01-31T10:00:00Z", "2026-12-25T00:00:00Z", "2027-02-28T10:00:00.000Z"],
  ["2027-01-31T10:00:00Z", "2027-01-25T00:00:00Z", "2027-03-31T10:00:00.000Z"],
  ["2028-01-31T10:00:00Z", "2027-12-25T00:00:00Z", "2028-02-29T10:00:00.000Z"],
])("terms that end at %s, with other prices from %s, keep the day", (end, from, until) => {
  const followed = [lists[0]!, { version: "next", from: new Date(from) }];
  expect(legacyUntil("2026-11", { end: new Date(end), months: 1 }, followed)?.toISOString()).toBe(until);
});

test("prices that are in force have no end", () => {
  expect(legacyUntil(PRICE_VERSION, { end, months: 1 })).toBeUndefined();
});
