import { afterAll, beforeAll, expect, test } from "vitest";
import { TierChangedSchema } from "../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../services/kit/events/outbox.ts";
import { createPool } from "../../services/kit/postgres/db.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { openDoor, refusal } from "../support/door.ts";
import { launch } from "../support/launched.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ DEFAULT_TIER: "free" });
});
afterAll(() => world?.stop());

const QUOTA = "403 quota_exceeded";

/** Has an event say which plan the account is on, as billing does. */
async function changeTier(tier: string, revision: bigint): Promise<void> {
  const pool = createPool(world.database.url("deployer"));
  const { accountId } = world;
  await emit(pool, TierChangedSchema, accountId, { accountId, tier, revision });
  await pool.end();
}

test("an owner meets the limits of the free plan, and they are gone once the plan is paid", async () => {
  const { A } = world;
  const { E } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const attempts: Record<string, () => ReturnType<typeof world.call>> = {
    project: () => world.call("POST", `${A}/projects`, { name: "second" }),
    service: () => world.call("POST", `${E}/services`, { name: "web2", type: "web" }),
    size: () => world.call("PATCH", `${E}/services/web`, { config: { size: "small" } }),
    replicas: () => world.call("PATCH", `${E}/services/web`, { config: { replicas: 2 } }),
    member: () => world.call("POST", `${A}/members`, { email: "friend@example.com", role: "reader" }),
  };
  for (const [what, attempt] of Object.entries(attempts)) {
    const { status, body } = await attempt();
    expect([what, status, body.error?.code, body.error?.limit]).toEqual([
      ...[what, 403, "quota_exceeded"],
      what === "size" ? "nano" : 1,
    ]);
    expect(body.error?.message).toContain(`POST ${A}/subscription`);
  }
  await changeTier("pro", 1n);
  for (const [what, attempt] of Object.entries(attempts))
    await eventually(`${what} is accepted`, async () => (await attempt()).status < 300);

  await changeTier("free", 2n);
  await eventually("the plan is free again", async () => {
    const answer = await world.call("POST", `${A}/members`, { email: "other@example.com", role: "reader" });
    return refusal(answer) === QUOTA;
  });
  expect((await world.must<{ data: object[] }>("GET", `${A}/projects`)).data).toHaveLength(2);
  expect(await world.must("GET", `${E}/services/web`)).toMatchObject({
    config: { size: "small", replicas: 2 },
  });
});

test.each([
  ["lifts", {}, 201],
  ["keeps", { PLAN_QUOTAS: "on" }, 403],
])("npm start with the free plan %s its quotas with %j in the environment", async (_, env, second) => {
  const launched = await launch({ env });
  try {
    const { A, call, must, environment } = await openDoor(launched.origin, launched.ownerToken);
    const { E } = await environment();
    await must("POST", `${E}/services`, { name: "web", type: "web" });
    expect((await call("POST", `${A}/projects`, { name: "second" })).status).toBe(second);
    const sizeBytes = 251 * 1024 ** 2;
    const upload = await call("POST", `${E}/services/web/uploads`, { sizeBytes });
    expect(refusal(upload)).toBe("422 archive_too_large");
  } finally {
    await launched.stop();
  }
});
