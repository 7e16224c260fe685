import { expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { type Choice, decide } from "./decide.ts";

const choice = (text: string) => text.split(" ") as unknown as [Choice["tier"], Choice["cadence"]];
const of = (text: string): Choice => {
  const [tier, cadence] = choice(text);
  return { tier, cadence };
};

test.each([
  ["pro monthly", undefined, { tier: "team" }, "upgrade", "team monthly"],
  ["pro annual", undefined, { tier: "team" }, "upgrade", "team annual"],
  ["team monthly", undefined, { tier: "pro" }, "schedule", "pro monthly"],
  ["team annual", undefined, { tier: "pro", cadence: "monthly" }, "schedule", "pro monthly"],
  ["pro monthly", undefined, { cadence: "annual" }, "schedule", "pro annual"],
  ["pro annual", undefined, { cadence: "monthly" }, "schedule", "pro monthly"],
  ["pro monthly", undefined, { tier: "pro" }, "none", "pro monthly"],
  ["team monthly", "pro monthly", { tier: "pro" }, "none", "pro monthly"],
  ["team monthly", "pro monthly", { tier: "team" }, "keep", "team monthly"],
  ["team monthly", "pro monthly", { cadence: "annual" }, "schedule", "pro annual"],
  ["team monthly", "pro annual", { tier: "team" }, "schedule", "team annual"],
  ["pro monthly", "pro annual", { cadence: "monthly" }, "keep", "pro monthly"],
] as const)("%s, pending %s, asked for %o: %s to %s", (current, pending, asked, kind, to) => {
  expect(decide(of(current), pending && of(pending), asked)).toEqual({ kind, to: of(to) });
});

test.each([
  ["pro monthly", undefined, { tier: "team", cadence: "annual" }, "422 validation_failed one_change"],
  ["pro annual", undefined, { tier: "team", cadence: "monthly" }, "422 validation_failed one_change"],
  ["pro monthly", "pro annual", { tier: "team" }, "409 plan_change_pending"],
] as const)("%s, pending %s, asked for %o is %s", async (current, pending, asked, refusal) => {
  const decided = (async () => decide(of(current), pending && of(pending), asked))();
  expect(await refused(decided)).toBe(refusal);
});
