import { expect, test } from "vitest";
import type { ReleaseVariables } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import type { ReleaseRow } from "../releases/sql.ts";
import { createEarlyVariables } from "./early-variables.ts";

const service = { id: "svc", revision: 3, dirtyAt: "2026-01-01 00:00:00+00" };
const row = { serviceId: "svc", deploymentId: "dep", revision: 3, dirtyAt: service.dirtyAt } as ReleaseRow;

/** Returns what asks for variables, which are numbered by their fingerprint. */
function open() {
  let calls = 0;
  const early = createEarlyVariables(async () => ({ fingerprint: `${++calls}` }) as ReleaseVariables);
  early.setApplies(true);
  return { early, calls: () => calls };
}

test("what was asked for while a deployment was accepted is taken once", async () => {
  const { early, calls } = open();
  early.ask("dep", service);
  expect(await early.take(row)).toEqual({ fingerprint: "1" });
  expect(await early.take(row)).toBeUndefined();
  expect(calls()).toBe(1);
});

const others: [string, Partial<ReleaseRow>][] = [
  ["the service was marked since", { dirtyAt: "2026-01-01 00:00:01+00" }],
  ["the service was compared since", { dirtyAt: undefined }],
  ["the service has taken other variables since", { revision: 4 }],
  ["another deployment is applied", { deploymentId: "dep_other" }],
];
test.each(others)("it is not taken when %s", async (_, change) => {
  const { early } = open();
  early.ask("dep", service);
  expect(await early.take({ ...row, ...change })).toBeUndefined();
});

test("it is not taken after the service's variables were asked for once more", async () => {
  const { early } = open();
  early.ask("dep", service);
  await early.resolve("svc");
  expect(await early.take(row)).toBeUndefined();
});

test("when they cannot be had early, they are asked for again", async () => {
  const early = createEarlyVariables(() => Promise.reject(new Error("away")));
  early.setApplies(true);
  early.ask("dep", service);
  expect(await early.take(row)).toBeUndefined();
});

test("a process that applies nothing asks for nothing", async () => {
  const { early, calls } = open();
  early.setApplies(false);
  early.ask("dep", service);
  expect(calls()).toBe(0);
});
