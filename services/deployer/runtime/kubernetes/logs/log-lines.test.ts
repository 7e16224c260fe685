import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createCursors } from "../../../../kit/postgres/paging.ts";
import { compare, matches, numberLines, parseLine, readCursor, toLogLine, writeCursor } from "./log-lines.ts";

const line = (changes = {}) => ({
  time: "2026-01-02T03:04:05.000000006",
  pod: "abcde",
  nth: 0,
  message: "hello",
  stream: "stdout" as const,
  version: 3,
  ...changes,
});

describe("lines of a pod's log", () => {
  test("are parted from their time, which sorts as text whatever its precision", () => {
    expect(parseLine("2026-01-02T03:04:05.12Z a b")).toEqual({
      time: "2026-01-02T03:04:05.120000000",
      message: "a b",
    });
    expect(parseLine("2026-01-02T03:04:05Z ")).toEqual({
      time: "2026-01-02T03:04:05.000000000",
      message: "",
    });
    expect(parseLine("unable to retrieve container logs")).toBeUndefined();
  });

  test("have a position that a cursor brings back, short enough for a client to send when it is signed", () => {
    const converted = toLogLine(line());
    expect(converted).toMatchObject({ timestamp: "2026-01-02T03:04:05.000Z", replica: "abcde", version: 3 });
    expect(readCursor(converted.cursor)).toEqual({ time: line().time, pod: "abcde", nth: 0 });
    const signed = createCursors([randomBytes(32)]).encode("log", writeCursor(line({ nth: 99_999 })));
    expect(signed.length).toBeLessThanOrEqual(128);
    for (const foreign of ["nonsense", "", "log:12"])
      expect(() => readCursor(foreign)).toThrow(expect.objectContaining({ code: "invalid_cursor" }));
    expect(readCursor(undefined)).toBeUndefined();
  });

  test("are ordered by time, then replica, then as they were written", () => {
    const number = numberLines("abcde");
    const times = ["1", "1", "2"].map((time) => number(time));
    expect(times.map(({ nth }) => nth)).toEqual([0, 1, 0]);
    const mixed = [
      line({ nth: 1 }),
      line({ pod: "abcdd" }),
      line(),
      line({ time: "2025-01-02T03:04:05.000000006" }),
    ];
    expect(mixed.sort(compare).map(({ time, pod, nth }) => [time.slice(0, 4), pod, nth])).toEqual([
      ["2025", "abcde", 0],
      ["2026", "abcdd", 0],
      ["2026", "abcde", 0],
      ["2026", "abcde", 1],
    ]);
  });

  test("are chosen by version, stream and time", () => {
    expect(matches(line(), {})).toBe(true);
    expect(matches(line(), { version: 4 })).toBe(false);
    expect(matches(line(), { stream: "stderr" })).toBe(false);
    expect(matches(line(), { since: new Date("2026-01-02T03:04:05Z") })).toBe(true);
    expect(matches(line(), { since: new Date("2026-01-02T03:04:06Z") })).toBe(false);
  });
});
