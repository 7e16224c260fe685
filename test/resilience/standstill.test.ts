import { rm } from "node:fs/promises";
import { join } from "node:path";
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

test("NATS that loses its store is noticed, and what changes after that takes effect everywhere", async () => {
  const { E, S } = await world.environment();
  const processes = ["gateway", "identity", "variables", "deployer", "notifications", "billing"];
  const readiness = (query = "") =>
    Promise.all(
      processes.map(async (name) => {
        const answer = await fetch(`http://127.0.0.1:${world.ports[name]}/readyz${query}`);
        const [state] = (await answer.text()).split("\n");
        return `${name} ${answer.status} ${state}`;
      }),
    );
  const all = (answer: string) => processes.map((name) => `${name} ${answer}`).join();
  await eventually("all are ready", async () => (await readiness()).join() === all("200 ready"));
  process.kill(world.nats.pid, "SIGKILL");
  await world.nats.stop();
  await rm(join(world.nats.dir, "data"), { recursive: true });
  await eventually(
    "all say that events do not flow",
    async () => (await readiness()).join() === all("503 events do not flow"),
  );
  expect((await readiness("?exclude=events")).join()).toBe(all("200 ready"));
  await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
  await world.nats.restart();
  await eventually("all are ready", async () => (await readiness()).join() === all("200 ready"));
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  await world.must("POST", `${E}/variables`, { name: "URL", connection: { service: "db", key: "URL" } });
  await eventually("variables hears of both services and of the addon's keys", async () => {
    const set = await world.must<Resolved>("GET", `${S("web")}/resolved-variables`);
    return set.dangling.length === 0 && set.data.length === 1;
  });
});
