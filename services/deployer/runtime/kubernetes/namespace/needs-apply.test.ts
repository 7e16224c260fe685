import type { V1Namespace } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { manyOptions } from "../many/testing.ts";
import { withMark, withPlan } from "./namespace-manifests.ts";
import { type KnownNamespace, needsApply, needsReapply, TURNS } from "./needs-apply.ts";

const environment = { accountId: "acc_1", projectId: "prj_1", environmentId: "env_7" };
const options = manyOptions({ kube: undefined as never, log: console });
const desired = withMark(environment, options) as V1Namespace;
const other = withMark(environment, withPlan(options, { volumes: 2, openPorts: [] })) as V1Namespace;
const terminating = { metadata: { ...desired.metadata, deletionTimestamp: new Date() } };

test.each<[string, Partial<KnownNamespace>, boolean]>([
  ["one that is not there", {}, true],
  ["one that another process applied", { live: desired }, false],
  ["one with another desired state", { live: other }, true],
  ["one that is being removed", { live: terminating }, true],
  ["one that turned out to lack something", { live: desired, stale: true }, true],
  ["one that this process is about to apply", { applied: desired, stale: true }, false],
  ["one to which this process applied another plan", { live: desired, applied: other }, true],
])("%s", (_, known, needed) => {
  expect(needsApply(desired, { stale: false, ...known })).toBe(needed);
});

test("a namespace is applied again in one of the turns, with another desired state in each, while it is removed in none", () => {
  const turnsOf = (live: V1Namespace) =>
    Array.from({ length: TURNS }, (_, turn) => turn).filter((turn) =>
      needsReapply(live, desired, environment, turn),
    );
  expect(turnsOf(desired)).toHaveLength(1);
  expect(turnsOf(other)).toHaveLength(TURNS);
  expect(turnsOf(terminating)).toEqual([]);
  expect(needsReapply(desired, desired, environment, undefined)).toBe(false);
});
