import { expect, test } from "vitest";
import { decideDue, findScheduleProblem, isTimeZone, nextTime } from "./schedule.ts";

const times = (schedule: string, timeZone: string, from: string, count: number) => {
  const found: string[] = [];
  let at = Date.parse(from);
  for (let n = 0; n < count; n++) {
    at = nextTime({ schedule, timeZone }, at)!;
    found.push(new Date(at).toISOString().replace(":00.000Z", "Z"));
  }
  return found;
};

test.each([
  // The clocks go from 2:00 to 3:00.
  ["Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"],
  ["America/New_York", "2026-03-07T12:00Z", "2026-03-08T07:00Z", "2026-03-09T06:30Z"],
])("a time that does not exist runs once, right after the gap (%s)", (zone, from, first, second) => {
  expect(times("30 2 * * *", zone, from, 2)).toEqual([first, second]);
});

test.each([
  // The clocks go from 3:00 to 2:00, and from 2:00 to 1:00.
  ["Europe/Berlin", "30 2 * * *", "2026-10-24T12:00Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"],
  ["America/New_York", "30 1 * * *", "2026-10-31T12:00Z", "2026-11-01T05:30Z", "2026-11-02T06:30Z"],
])("a time that exists twice runs once (%s)", (zone, schedule, from, first, second) => {
  expect(times(schedule, zone, from, 2)).toEqual([first, second]);
});

test.each(["Europe/Berlin", "America/New_York"])(
  "what runs every hour does so over both changes (%s)",
  (zone) => {
    for (const from of ["2026-03-07T22:45Z", "2026-03-28T22:45Z", "2026-10-24T22:45Z", "2026-10-31T22:45Z"]) {
      const found = times("30 * * * *", zone, from, 12).map((time) => Date.parse(time));
      expect(found.map((time, at) => time - found[0]! - at * 3_600_000)).toEqual(Array(12).fill(0));
    }
  },
);

test.each([
  "* * * * * *",
  "@reboot",
  "0 0 30 2 *",
  "61 * * * *",
  "every day",
  "2026-03-08T00:00:00",
  "",
  "* * * *",
])("%j is no schedule", (schedule) => {
  expect(findScheduleProblem(schedule)).toMatch(/\.$/);
});

test.each(["* * * * *", "*/5 9-17 * * MON-FRI", "@hourly", "@midnight", " 0  3 1 * * ", "0 0 29 2 *"])(
  "%j is a schedule",
  (schedule) => {
    expect(findScheduleProblem(schedule)).toBeUndefined();
  },
);

test("time zones are those of IANA", () => {
  expect(["UTC", "Europe/Berlin", "+02:00", "Berlin", "", "../etc"].map(isTimeZone)).toEqual([
    ...[true, true, false, false, false, false],
  ]);
});

const at = (time: string) => Date.parse(`2026-05-01T${time}Z`);
test.each([
  ["in time", "09:00", "09:00", "09:00", "10:00"],
  ["a while late", "09:00", "09:59", "09:00", "10:00"],
  ["missed for longer than an hour", "06:00", "09:30", "09:00", "10:00"],
  ["early", "09:00", "08:59", undefined, "09:00"],
])("hourly, %s", (_, dueAt, now, run, next) => {
  expect(decideDue({ schedule: "@hourly" }, at(dueAt), at(now))).toEqual({
    ...(run && { run: at(run) }),
    next: at(next),
  });
});

test("a daily time that was missed for longer than an hour is skipped", () => {
  const missed = at("03:00");
  expect(decideDue({ schedule: "0 3 * * *" }, missed, at("09:30"))).toEqual({ next: missed + 86_400_000 });
});
