import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ReleaseVariablesSchema } from "../../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { compareWithLive, decideApply } from "./apply-decision.ts";

const release = { version: 3, revision: 7 };

test.each([
  ["deploy", { liveVersion: 2, revision: 7 }, "mark-applied"],
  ["deploy", { revision: 7 }, "mark-applied"],
  ["deploy", { liveVersion: 2, revision: 8 }, "retry"],
  ["reapply", { liveVersion: 3, revision: 7 }, "apply"],
  ["reapply", { liveVersion: 3, revision: 8 }, "retry"],
  ["reapply", { liveVersion: 4, revision: 7 }, "skip"],
  ["reapply", { revision: 7 }, "skip"],
] as const)("%s under the lock of a service at %j: %s", (mode, service, decision) => {
  expect(decideApply(mode, service, release)).toBe(decision);
});

const variables = create(ReleaseVariablesSchema, { fingerprint: "a" });
const live: Parameters<typeof compareWithLive>[0] = {
  config: { size: "small" },
  fingerprint: "a",
  revision: 7,
  appliedRevision: 7,
  autoApply: true,
};

test.each([
  ["the same variables", {}, "unchanged"],
  ["other variables", { fingerprint: "b" }, "reapply"],
  ["another address", { appliedRevision: 6 }, "reapply"],
  [
    "other variables that the service does not take by itself",
    { fingerprint: "b", autoApply: false },
    "pending",
  ],
])("%s: %j", (_, other, comparison) => {
  expect(compareWithLive({ ...live, ...other }, variables)).toBe(comparison);
});
