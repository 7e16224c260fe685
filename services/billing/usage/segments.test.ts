import fc from "fast-check";
import { expect, test } from "vitest";
import { addsInformation, type Segment, segmentsOf, type UsageEvent } from "./segments.ts";

const nano = { size: "nano", replicas: 1 };
const event = (seq: number, kind: UsageEvent["kind"], second: number, more: Partial<UsageEvent> = {}) => ({
  ...nano,
  seq,
  kind,
  at: second * 1_000,
  ...more,
});
const start = event(0, "start", 10);
const lengths = (segments: Segment[]) => segments.map((one) => (one.end ?? Number.NaN) - one.start);

test("what starts, is resized and stops is billed for each size, second by second", () => {
  const events = [start, event(1, "resize", 70, { size: "large", replicas: 3 }), event(2, "stop", 100)];
  expect(segmentsOf(events, { lastSeen: 100 })).toEqual([
    { seq: 0, ...nano, start: 10, end: 70 },
    { seq: 1, size: "large", replicas: 3, start: 70, end: 100 },
  ]);
  expect(segmentsOf(events.slice(0, 2), { lastSeen: 80 }).at(-1)!.end).toBeUndefined();
});

test("a stop before the start costs nothing, and does not reach back", () => {
  expect(segmentsOf([start, event(1, "stop", 4)], { lastSeen: 10 })).toEqual([]);
  const resized = [start, event(1, "resize", 20, { replicas: 2 }), event(2, "stop", 15)];
  expect(segmentsOf(resized, { lastSeen: 20 })).toEqual([{ seq: 0, ...nano, start: 10, end: 20 }]);
});

test("a lost start is made up for by the first sign of life; a stop alone costs nothing", () => {
  const beat = event(3, "heartbeat", 300);
  expect(segmentsOf([beat, event(4, "stop", 400)], { lastSeen: 400 })).toEqual([
    { seq: 3, ...nano, start: 300, end: 400 },
  ]);
  expect(segmentsOf([event(4, "stop", 400)], { lastSeen: 400 })).toEqual([]);
});

test("a lost stop: the next interval ends it, at the latest when it was last seen", () => {
  expect(lengths(segmentsOf([start], { lastSeen: 310, next: 500 }))).toEqual([300]);
  expect(lengths(segmentsOf([start], { lastSeen: 600, next: 500 }))).toEqual([490]);
  expect(segmentsOf([start], { lastSeen: 600, next: 10 })).toEqual([]);
});

test("a heartbeat is news when it shows what no event before it did", () => {
  const known = [start, event(2, "resize", 50, { replicas: 2 })];
  expect(addsInformation(event(1, "heartbeat", 40), known)).toBe(false);
  expect(addsInformation(event(3, "heartbeat", 60, { replicas: 2 }), known)).toBe(false);
  expect(addsInformation(event(3, "heartbeat", 60), known)).toBe(true);
  expect(addsInformation(event(0, "heartbeat", 60), [])).toBe(true);
  expect(addsInformation(event(4, "heartbeat", 90), [start, event(3, "stop", 80)])).toBe(false);
});

const amount = { size: fc.constantFrom("nano", "small", "large"), replicas: fc.integer({ min: 1, max: 9 }) };
const kinds = fc.constantFrom<UsageEvent["kind"]>("start", "resize", "heartbeat", "stop");
const anyEvent = fc.record({ seq: fc.nat(12), kind: kinds, at: fc.nat(1_000_000), ...amount });
const anyEvents = fc.uniqueArray(anyEvent, { selector: ({ seq }) => seq, maxLength: 12 });

test("in any order, events of one interval give the same segments, whole, in order and without overlap", () => {
  const next = fc.option(fc.nat(1_000), { nil: undefined });
  fc.assert(
    fc.property(
      anyEvents,
      fc.nat(1_000),
      next,
      fc.infiniteStream(fc.nat(99)),
      (events, lastSeen, end, shuffle) => {
        const bounds = { lastSeen, next: end };
        const segments = segmentsOf(events, bounds);
        const keyed = events.map((one) => ({ one, key: shuffle.next().value as number }));
        const shuffled = keyed.toSorted((a, b) => a.key - b.key).map(({ one }) => one);
        expect(segmentsOf(shuffled, bounds)).toEqual(segments);
        for (const [index, segment] of segments.entries()) {
          expect(Number.isInteger(segment.start)).toBe(true);
          expect(segment.end ?? Number.POSITIVE_INFINITY).toBeGreaterThan(segment.start);
          expect(segment.start).toBeGreaterThanOrEqual(segments[index - 1]?.end ?? 0);
          if (end !== undefined) expect(segment.end).toBeLessThanOrEqual(end);
        }
      },
    ),
  );
});

test("resizes neither lose nor add a second", () => {
  const steps = fc.array(fc.record({ wait: fc.nat(5_000), ...amount }), { maxLength: 20 });
  fc.assert(
    fc.property(fc.nat(10_000), steps, (from, all) => {
      let at = from;
      const resizes = all.map(({ wait, ...rest }, index): UsageEvent => {
        at += wait;
        return { seq: index + 1, kind: "resize", at, ...rest };
      });
      const events = [{ ...start, at: from }, ...resizes, { ...event(99, "stop", 0), at }];
      const seconds = lengths(segmentsOf(events, { lastSeen: 0 })).reduce((sum, one) => sum + one, 0);
      expect(seconds).toBe(Math.floor(at / 1_000) - Math.floor(from / 1_000));
    }),
  );
});
