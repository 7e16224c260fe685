import { expect, test } from "vitest";
import { sumUsage } from "../../../kube/pods/pod-usage.ts";
import { coresOf } from "../../../kube/pods/resources.ts";
import { at, seen as observe, pod } from "../observe/testing.ts";
import { toMeasurement } from "./measure.ts";

const use = (cpu: string, memory: string) => ({ containers: [{ name: "app", usage: { cpu, memory } }] });

test("what pods use is added up, restarts are counted by pod, and replicas are those that are available", () => {
  const seen = observe([pod("a", { readySince: 5, restarts: 2 }), pod("b", { unreadySince: 1 })]);
  const used = sumUsage([use("250m", "64Mi"), use("1500000n", "1Ki")]);
  const found = toMeasurement(seen, used, at(60));
  expect(found).toMatchObject({
    ...{ serviceId: "svc_1", replicas: 1, memory: 64 * 1024 ** 2 + 1_024 },
    counters: [
      { source: "a", since: at(0), restarts: 2 },
      { source: "b", restarts: 0 },
    ],
  });
  expect(found.cores).toBeCloseTo(0.2515);
});

test("without a word from metrics-server there is no CPU and no memory", () => {
  const found = toMeasurement(observe([pod("a", { readySince: 5 })]), sumUsage([]), at(60));
  expect([found.cores, found.memory, found.replicas]).toEqual([undefined, undefined, 1]);
});

test("cores are read in each of the API's units", () => {
  expect(["2", "250m", "1500u", "1500000n"].map(coresOf)).toEqual([2, 0.25, 0.0015, 0.0015]);
});
