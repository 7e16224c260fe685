import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { archiveOf, type Deployment, deployArchive, open, settled } from "../support/apps.ts";
import { refusal } from "../support/door.ts";
import { openPlatform, type Platform } from "../support/world.ts";

let world: Platform;

beforeAll(async () => {
  world = await openPlatform();
});

afterAll(() => world?.stop());

type Service = { status: string; url: string; pendingChanges: boolean; config: { replicas: number } };
type Logs = { data: { message: string; replica: string }[] };

test("more replicas share the requests at once, without a deployment; none stops the service, one brings it back", async () => {
  const { E, S: service } = await world.environment();
  const S = service("web");
  const config = { minReadySeconds: 1 };
  await world.must("POST", `${E}/services`, { name: "web", type: "web", config });
  await deployArchive(world, S, await archiveOf("node"));
  await settled(world, S, 1);
  const { url } = await world.must<Service>("GET", S);

  const patched = await world.must<Service>("PATCH", S, { config: { replicas: 2 } });
  expect(patched).toMatchObject({ pendingChanges: false, config: { replicas: 2 } });
  await eventually("both replicas answer", async () => {
    await open(url, "/who");
    const { data } = await world.must<Logs>("GET", `${S}/logs`);
    const asked = data.filter((line) => line.message.includes("/who"));
    return new Set(asked.map((line) => line.replica)).size === 2;
  });
  expect((await world.must<{ data: Deployment[] }>("GET", `${S}/deployments`)).data).toHaveLength(1);

  await world.must("PATCH", S, { config: { replicas: 0 } });
  await eventually("it is stopped", async () => (await world.must<Service>("GET", S)).status === "stopped");
  expect((await open(url)).status).toBe(503);
  await world.must("PATCH", S, { config: { replicas: 1 } });
  await eventually("it runs", async () => (await world.must<Service>("GET", S)).status === "running");
  expect((await open(url)).status).toBe(200);
  expect(refusal(await world.call("PATCH", S, { config: { replicas: 21 } }))).toBe("422 out_of_range");
});
