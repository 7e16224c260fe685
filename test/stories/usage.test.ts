import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { archiveOf, deployArchive, settled } from "../support/apps.ts";
import { openPlatform, type Platform } from "../support/world.ts";

let world: Platform;

beforeAll(async () => {
  world = await openPlatform();
});

afterAll(() => world?.stop());

type Used = { serviceId: string; serviceName: string; projectName: string; type: string; accruedUsd: number };
type Line = { size: string; replicas: number; seconds: number; nanoUsdPerSecond: number; endedAt?: string };

test("an owner sees what a service costs while it runs, by name, and what it was once it is gone", async () => {
  const { P, E, S: service } = await world.environment();
  const S = service("web");
  const { id } = await world.must<{ id: string }>("POST", `${E}/services`, { name: "web", type: "web" });
  const used = async () => {
    const { services } = await world.must<{ services: Used[] }>("GET", `${world.A}/compute-usage`);
    return services.find(({ serviceId }) => serviceId === id);
  };
  const lines = async () => {
    const query = `serviceId=${id}&limit=1`;
    return (await world.must<{ data: Line[] }>("GET", `${world.A}/compute-usage/lines?${query}`)).data;
  };
  expect(await used()).toBeUndefined();
  await deployArchive(world, S, await archiveOf("node"));
  await settled(world, S, 1);
  const { name: projectName } = await world.must<{ name: string }>("GET", P);
  const first = await eventually("it is seen", used);
  expect(first).toMatchObject({ serviceName: "web", projectName, type: "web" });
  const [running] = await eventually("it runs for some seconds", async () => {
    const found = await lines();
    return found[0] && found[0].seconds >= 2 && found;
  });
  expect(running).toMatchObject({ size: "nano", replicas: 1, nanoUsdPerSecond: 2_250 });
  expect(running!.endedAt).toBeUndefined();

  const name = `${projectName}-2`.slice(-40);
  await world.must("PATCH", P, { name });
  await eventually("the new name is shown", async () => (await used())?.projectName === name);

  await world.must("DELETE", S, { confirmImpact: true });
  const [ended] = await eventually("it has stopped", async () => {
    const found = await lines();
    return found[0]?.endedAt !== undefined && found;
  });
  expect(ended!.seconds).toBeGreaterThanOrEqual(running!.seconds);
  expect(await used()).toMatchObject({ serviceName: "web", projectName: name });
});
