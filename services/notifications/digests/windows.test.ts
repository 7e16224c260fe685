import { expect, test } from "vitest";
import { windowAt, windowKey } from "./windows.ts";

const at = (time: string) => Date.parse(time);
const next = (digest: "daily" | "weekly", time: string) =>
  new Date(windowAt(digest, at(time)).next).toISOString();

test.each([
  ["2026-11-20T07:59:59.999Z", "daily:2026-11-19", "2026-11-20T08:00:00.000Z"],
  ["2026-11-20T08:00:00Z", "daily:2026-11-20", "2026-11-21T08:00:00.000Z"],
  ["2026-12-31T23:59:00Z", "daily:2026-12-31", "2027-01-01T08:00:00.000Z"],
])("at %s the daily window is %s, and the next begins at %s", (time, key, following) => {
  expect(windowKey("daily", at(time))).toBe(key);
  expect(next("daily", time)).toBe(following);
});

test.each([
  ["2026-11-23T07:59:59.999Z", "weekly:2026-11-16", "2026-11-23T08:00:00.000Z"],
  ["2026-11-23T08:00:00Z", "weekly:2026-11-23", "2026-11-30T08:00:00.000Z"],
  ["2026-11-29T12:00:00Z", "weekly:2026-11-23", "2026-11-30T08:00:00.000Z"],
])("at %s the weekly window is %s, and the next begins on Monday %s", (time, key, following) => {
  expect(windowKey("weekly", at(time))).toBe(key);
  expect(next("weekly", time)).toBe(following);
});
