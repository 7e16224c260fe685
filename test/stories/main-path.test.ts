import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { archiveOf, type Deployment, deployArchive, open, settled } from "../support/apps.ts";
import { openPlatform, type Platform } from "../support/world.ts";

let world: Platform;

beforeAll(async () => {
  world = await openPlatform();
});

afterAll(() => world.stop());

type Service = { status: string; url: string; liveVersion: number; pendingChanges: boolean };
type Logs = { data: { message: string; version: number; stream: string }[] };

test("a newcomer deploys source, opens it, changes a variable, deploys again and reads history and logs", async () => {
  const { P, E, S: service } = await world.environment();
  const S = service("web");
  await world.must("POST", `${E}/services`, {
    name: "web",
    type: "web",
    config: { healthCheckPath: "/healthz" },
  });

  await world.must("POST", `${P}/variables`, { name: "GREETING", value: "from the project" });
  await world.must("POST", `${E}/variables`, { name: "GREETING", value: "from the environment" });
  await world.must("POST", `${S}/variables`, { name: "API_KEY", value: "k-123", sensitive: true });

  const first = await deployArchive(world, S, await archiveOf("node"));
  expect(first).toMatchObject({ version: 1, status: "queued", errors: [], warnings: [] });
  const healthy = await settled(world, S, 1);
  expect(healthy).toMatchObject({ status: "applied", errors: [] });
  const shown = await world.must<Service>("GET", S);
  expect(shown).toMatchObject({ status: "running", liveVersion: 1, pendingChanges: false });
  const page = await open(shown.url);
  expect(page.status).toBe(200);
  expect(page.body).toContain("from the environment");

  await world.must("PATCH", `${E}/variables/GREETING`, { value: "changed while it runs" });
  await eventually("the app greets with the new value", async () =>
    (await open(shown.url)).body.includes("changed while it runs"),
  );
  expect((await world.must<Service>("GET", S)).liveVersion).toBe(1);

  const build = await world.must<{ logs: string; live: boolean; truncated: boolean }>(
    "GET",
    `${S}/deployments/1/build-logs`,
  );
  expect(build).toMatchObject({ version: 1, live: false, truncated: false });
  expect(build.logs).not.toBe("");

  await deployArchive(world, S, await archiveOf("node"));
  await settled(world, S, 2);
  const history = await world.must<{ data: Deployment[] }>("GET", `${S}/deployments`);
  expect(history.data.map((d) => [d.version, d.status])).toEqual([
    [2, "applied"],
    [1, "applied"],
  ]);
  const logs = await world.must<Logs>("GET", `${S}/logs`);
  expect(logs.data.length).toBeGreaterThan(0);
  expect(logs.data.map((line) => line.version)).toContain(2);
});

test("python and static apps are detected, built and served", async () => {
  const { E, S } = await world.environment();
  for (const app of ["python", "static"]) {
    await world.must("POST", `${E}/services`, { name: app, type: "web" });
    const { version } = await deployArchive(world, S(app), await archiveOf(app));
    expect(await settled(world, S(app), version)).toMatchObject({ status: "applied", errors: [] });
    const { url } = await world.must<Service>("GET", S(app));
    expect((await open(url)).status).toBe(200);
  }
});

test("deleting a project with a live service needs confirmation and then leaves nothing", async () => {
  const { P, E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  await world.must("POST", `${P}/variables`, { name: "A", value: "1" });
  await deployArchive(world, S("web"), await archiveOf("static"));
  await settled(world, S("web"), 1);
  const { url } = await world.must<Service>("GET", S("web"));
  const refused = await world.call("DELETE", P);
  expect(refused.status).toBe(409);
  expect(refused.body.error).toMatchObject({ code: "impact_confirmation_required", impact: { total: 1 } });
  expect((await world.call("DELETE", P, { confirmImpact: true })).status).toBe(204);
  await eventually("the project is gone", async () => (await world.call("GET", P)).status === 404);
  await eventually("the app is gone", async () => (await open(url)).status === 404);
  await eventually(
    "its variables are gone",
    async () => (await world.call("GET", `${P}/variables`)).status === 404,
  );
});
