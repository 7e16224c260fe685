import fc from "fast-check";
import { expect, test } from "vitest";
import { type Candidate, isWithinAllowance, toSuspend } from "./to-suspend.ts";

const one = (id: string, more: Partial<Candidate> = {}): Candidate => ({
  ...{ id, type: "web", size: "nano", replicas: 1, live: true, suspended: false },
  ...more,
});

test("services are stopped from the largest cost down, until one small one of each type is left", () => {
  const services = [
    one("svc_1", { replicas: 3 }),
    one("svc_2"),
    one("svc_3", { size: "large" }),
    one("svc_4", { type: "worker", size: "small" }),
    one("svc_5"),
    one("svc_6", { type: "worker" }),
  ];
  expect(toSuspend(services)).toEqual(["svc_3", "svc_1", "svc_4", "svc_5"]);
});

test.each<[string, Candidate[], string[]]>([
  ["what is deployed goes before what is not", [one("svc_1", { live: false }), one("svc_2")], ["svc_1"]],
  ["what runs on goes before what was stopped", [one("svc_1", { suspended: true }), one("svc_2")], ["svc_1"]],
  ["without replicas nothing is stopped or kept", [one("svc_1", { replicas: 0 }), one("svc_2")], []],
  ["replicas that nobody set are one", [one("svc_1", { replicas: undefined })], []],
  ["one that is too large is stopped, also alone", [one("svc_1", { size: "small" })], ["svc_1"]],
])("%s", (_, services, expected) => {
  expect(toSuspend(services)).toEqual(expected);
});

test("what is left is within the allowance, and deciding again changes nothing", () => {
  const service = fc.record({
    type: fc.constantFrom("web", "worker"),
    size: fc.constantFrom("nano", "small", "medium", "large"),
    replicas: fc.integer({ min: 0, max: 3 }),
    live: fc.boolean(),
    suspended: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(service, { maxLength: 8 }), (found) => {
      const services = found.map((each, n) => ({ ...each, id: `svc_${n}` }) as Candidate);
      const stopped = toSuspend(services);
      const left = services.filter(({ id, replicas }) => !stopped.includes(id) && replicas !== 0);
      expect(left.every(isWithinAllowance)).toBe(true);
      expect(new Set(left.map(({ type }) => type)).size).toBe(left.length);
      const after = services.map((each) => ({ ...each, suspended: stopped.includes(each.id) }));
      expect(toSuspend(after)).toEqual(stopped);
    }),
  );
});
