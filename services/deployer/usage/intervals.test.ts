import fc from "fast-check";
import { expect, test } from "vitest";
import type { UsageChange } from "../terms/usage-change.ts";
import { usageSteps } from "./intervals.ts";
import { appendUsage } from "./journal.ts";

const nano = { size: "nano" as const };
const facts = { size: "nano" };

test("changes that were taken already do nothing again", () => {
  const changes: UsageChange[] = [
    { at: 10, replicas: 0, ...nano },
    { at: 20, replicas: 1, ...nano },
  ];
  expect(usageSteps(facts, changes)).toEqual([{ do: "start", at: 20, replicas: 1, size: "nano" }]);
  const open = { replicas: 1, size: "nano", seenAt: 25 };
  expect(usageSteps({ ...facts, open, recordedUntil: 20 }, changes)).toEqual([]);
  const ended = [...changes, { at: 30, replicas: 0 }, { at: 40, replicas: 2 }];
  expect(usageSteps({ ...facts, open, recordedUntil: 20 }, ended)).toEqual([
    { do: "stop", at: 30 },
    { do: "start", at: 40, replicas: 2, size: "nano" },
  ]);
});

test("when the runtime has lost what it knew, the interval ends when it was last seen", () => {
  const open = { replicas: 1, size: "nano", seenAt: 25 };
  const anew: UsageChange[] = [
    { at: 90, replicas: 0 },
    { at: 95, replicas: 1, ...nano },
  ];
  expect(usageSteps({ ...facts, open, recordedUntil: 20 }, anew)).toEqual([
    { do: "stop", at: 25 },
    { do: "start", at: 95, replicas: 1, size: "nano" },
  ]);
});

test("taken in any portions, however often, the changes give the same seconds", () => {
  const moves = fc.array(fc.record({ wait: fc.nat(5), replicas: fc.nat(3) }), { maxLength: 30 });
  const seconds = (journal: UsageChange[], until: number) =>
    journal.reduce((sum, { at, replicas }, n) => sum + replicas * ((journal[n + 1]?.at ?? until) - at), 0);
  fc.assert(
    fc.property(moves, fc.array(fc.nat(30)), (all, portions) => {
      let journal: UsageChange[] = [];
      const prefixes: UsageChange[][] = [];
      let clock = 0;
      for (const { wait, replicas } of [{ wait: 0, replicas: 0 }, ...all]) {
        clock += wait;
        journal = appendUsage(journal, { at: clock, replicas, ...nano });
        prefixes.push(journal);
      }
      const until = journal.at(-1)!.at + 10;
      const views = [...portions].sort((a, b) => a - b).flatMap((n) => (prefixes[n] ? [prefixes[n]] : []));
      let [open, from, sum]: [number, number, number] = [0, 0, 0];
      let recordedUntil: number | undefined;
      for (const view of [...views, journal, journal]) {
        const now = open > 0 ? { replicas: open, size: "nano", seenAt: from } : undefined;
        for (const step of usageSteps({ ...facts, open: now, recordedUntil }, view)) {
          sum += open * (step.at - from);
          [open, from] = [step.do === "stop" ? 0 : step.replicas, step.at];
        }
        recordedUntil = view.at(-1)!.at;
      }
      expect(sum + open * (until - from)).toBe(seconds(journal, until));
    }),
  );
});
