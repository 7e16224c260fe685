import { afterAll, beforeAll, expect, test } from "vitest";
import { SuspensionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startDeployer, type TestDeployer } from "../testing/testing.ts";
import { serviceWithRuns } from "./testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ DEFAULT_TIER: "free", PLAN_QUOTAS: "on" });
});
afterAll(() => berth?.stop());

test("the plan limits how many runs there are at once, also of requests at the same time", async () => {
  const { run, waiting, go, untilEnded } = await serviceWithRuns(berth);
  const tries = await Promise.allSettled([run(waiting), run(waiting), run(waiting)]);
  const made = tries.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  expect(made).toHaveLength(1);
  expect(await refused(run("true"))).toBe("403 quota_exceeded");
  go();
  await untilEnded(made[0]!.id);
  await untilEnded((await run("true")).id);
});

test("of a suspended account what runs is canceled, and nothing starts", async () => {
  const { run, waiting, logs, accountId, untilEnded } = await serviceWithRuns(berth);
  const { id } = await run(waiting);
  await eventually("it runs", async () => (await logs(id)).includes("begun"));
  const report = (reason: string, revision: bigint) =>
    berth.variables.publish(SuspensionChangedSchema, accountId, { accountId, reason, revision });
  await report("free_plan", 1n);
  expect(await untilEnded(id)).toMatchObject({ status: "canceled" });
  expect(await refused(run("true"))).toBe("403 compute_suspended");
  await report("", 2n);
  const again = await eventually("it runs again", () => run("true").catch(() => undefined));
  expect(await untilEnded(again.id)).toMatchObject({ status: "succeeded" });
});
