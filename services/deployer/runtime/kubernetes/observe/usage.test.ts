import { describe, expect, test } from "vitest";
import { at, ended, old, pod, seen } from "./testing.ts";
import { usageNow, usageWanted } from "./usage.ts";

describe("what ran and since when", () => {
  const nano = { size: "nano" as const };

  test("a replica counts from the second at which it was available", () => {
    expect(usageNow(seen([]), at(5))).toEqual([]);
    const ready = seen([pod("a", { readySince: 3 })]);
    expect(usageNow(ready, at(9))).toEqual([{ at: at(3), replicas: 1, ...nano }]);
  });

  test("a roll-over changes nothing, however it is watched", () => {
    const usage = [{ at: at(-50), replicas: 1, ...nano }];
    const before = pod("old", { of: old, made: -60, readySince: -50 });
    const both = seen([before, pod("new", { readySince: 2 })], {}, { usage });
    expect(usageNow(both, at(3))).toBe(both.recorded.usage);
    const after = seen([pod("new", { readySince: 2 })], {}, { usage });
    expect(usageNow(after, at(9))).toBe(after.recorded.usage);
  });

  test("a crash that nobody watched is dated by the cluster, and so is the return", () => {
    const usage = [{ at: at(3), replicas: 1, ...nano }];
    const back = pod("a", { readySince: 62, restarts: 1, last: ended(1, 60) });
    expect(usageNow(seen([back], {}, { usage }), at(500))).toEqual([
      ...usage,
      { at: at(60), replicas: 0, ...nano },
      { at: at(62), replicas: 1, ...nano },
    ]);
  });

  test("more replicas count as each becomes available, and never more than are wanted", () => {
    const usage = [{ at: at(3), replicas: 1, ...nano }];
    const three = { replicas: 3 };
    const pods = [3, 10, 12, 13].map((readySince, n) => pod(`p${n}`, { of: three, readySince }));
    expect(usageNow(seen(pods, three, { usage }), at(20))).toEqual([
      ...usage,
      { at: at(10), replicas: 2, ...nano },
      { at: at(12), replicas: 3, ...nano },
    ]);
  });

  test("fewer replicas count from the moment they are wanted; the rest is not counted twice", () => {
    const usage = [{ at: at(3), replicas: 3, ...nano }];
    const fewer = usageWanted(usage, 1, at(20));
    expect(fewer).toEqual([...usage, { at: at(20), replicas: 1, ...nano }]);
    expect(usageWanted(fewer, 2, at(30))).toBe(fewer);
    const pods = ["a", "b", "c"].map((name) => pod(name, { readySince: 2 }));
    const still = seen(pods, {}, { usage: fewer });
    expect(usageNow(still, at(21))).toBe(fewer);
    const gone = seen([pod("a", { readySince: 2 })], {}, { usage: fewer });
    expect(usageNow(gone, at(50))).toBe(fewer);
  });

  test("another size counts from when its replicas are whole", () => {
    const usage = [{ at: at(3), replicas: 1, ...nano }];
    const small = { size: "small" as const };
    const before = pod("old", { made: -60, readySince: 3 });
    const rolling = seen([before, pod("new", { of: small })], small, { usage });
    expect(usageNow(rolling, at(10))).toBe(usage);
    const whole = seen([pod("new", { of: small, made: 8, readySince: 11 })], small, { usage });
    expect(usageNow(whole, at(30))).toEqual([...usage, { at: at(11), replicas: 1, size: "small" }]);
  });
});
