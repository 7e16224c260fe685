import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world?.stop());

type Resolved = { data: { name: string }[]; dangling: unknown[] };

test("after NATS was suspended for half a second while an addon was created, every project continues", async () => {
  const [stalled, other] = [await world.environment(), await world.environment()];
  await world.must("POST", `${other.E}/services`, { name: "web", type: "web" });
  process.kill(world.nats.pid, "SIGSTOP");
  try {
    // What happens now arrives at variables as one batch: others' changes, the addon, its keys.
    for (const name of ["api", "web"])
      await world.must("POST", `${stalled.E}/services`, { name, type: "web" });
    await world.must("POST", `${stalled.E}/services`, { name: "db", type: "postgres" });
    await eventually("the addon runs", async () => {
      const { status } = await world.must<{ status: string }>("GET", stalled.S("db"));
      return status === "running";
    });
    await delay(500);
  } finally {
    process.kill(world.nats.pid, "SIGCONT");
  }
  for (const { E } of [stalled, other])
    await world.must("POST", `${E}/variables`, {
      name: "DATABASE_URL",
      connection: { service: "db", key: "URL" },
    });
  const seen = await eventually("the addon's keys are known", async () => {
    const set = await world.must<Resolved>("GET", `${stalled.S("web")}/resolved-variables`);
    return set.dangling.length === 0 && set;
  });
  expect(seen.data).toMatchObject([{ name: "DATABASE_URL" }]);
  expect((await world.call("DELETE", other.S("web"), { confirmImpact: true })).status).toBe(204);
  await eventually("variables hears of another project's change", async () => {
    const { status } = await world.call("GET", `${other.S("web")}/resolved-variables`);
    return status === 404;
  });
});
