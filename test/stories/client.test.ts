import { afterAll, beforeAll, expect, test } from "vitest";
import { Berth, isRefusal, type ServiceAddress } from "../../clients/typescript/src/index.ts";
import { anyName } from "../../gateway/testing/api-client.ts";
import { archiveOf, open } from "../support/apps.ts";
import { openPlatform, type Platform } from "../support/world.ts";

let world: Platform;
let berth: Berth;

beforeAll(async () => {
  world = await openPlatform();
  berth = new Berth({ baseUrl: world.origin, token: world.ownerToken });
});

afterAll(() => world.stop());

/** Makes a project with an environment, and returns where a service in it is to be. */
async function place(service: string): Promise<ServiceAddress> {
  const { accountId } = world;
  const { id: projectId } = await berth.projects.create({ accountId }, { name: anyName("shop") });
  const { id: environmentId } = await berth.environments.create(
    { accountId, projectId },
    { name: "production" },
  );
  return { accountId, projectId, environmentId, service };
}

test("a program sets a variable, deploys a folder, waits, and opens the address", async () => {
  const web = await place("web");
  await berth.services.create(web, { name: "web", type: "web", config: { healthCheckPath: "/healthz" } });
  await berth.variables.create(web, { name: "GREETING", value: "hello from a program" });
  const archive = new Uint8Array(await archiveOf("node"));
  const archiveRef = await berth.deployments.upload(web, archive);
  const started = await berth.deployments.deployFromArchive(web, { archiveRef });
  if (!("version" in started)) throw new Error("the service is staged");
  const states: string[] = [];
  const { outcome, deployment } = await berth.deployments.wait(web, started.version, {
    onProgress: ({ status }) => states.push(status),
  });
  expect([outcome, deployment.errors]).toEqual(["healthy", []]);
  expect(states.at(-1)).toBe("applied");
  expect(await berth.deployments.wait(web, started.version)).toMatchObject({ outcome: "healthy" });
  const { url, liveVersion } = await berth.services.get(web);
  expect(liveVersion).toBe(started.version);
  expect((await open(url!)).body).toContain("hello from a program");

  const lines = [];
  for await (const { event, data } of berth.logs.follow(web, { limit: 100 })) {
    lines.push(data.message);
    if (event === "line") break;
  }
  expect(lines.length).toBe(1);
  const versions = (await berth.deployments.list(web).all()).map(({ version }) => version);
  expect(versions).toEqual([started.version]);
  const dry = await berth.deployments.rollback(web, { version: started.version, dryRun: true });
  expect(dry.diff.image.changed).toBe(false);

  const refused = await berth.services.delete(web).catch((error: unknown) => error);
  if (!isRefusal(refused, "impact_confirmation_required")) throw refused;
  expect(refused.impact.services.length).toBe(refused.impact.total);
  await berth.projects.delete(web, { confirmImpact: true });
});

test("variables of each scope are one method, and a batch is one too", async () => {
  const web = await place("web");
  const { service: _, ...environment } = web;
  const { environmentId: __, ...project } = environment;
  await berth.services.create(environment, { name: "web", type: "web" });
  for (const [at, value] of [
    [project, "project"],
    [environment, "environment"],
  ] as const)
    await berth.variables.create(at, { name: "SCOPE", value });
  await berth.variables.batch(web, { set: [{ name: "SECRET", value: "s", sensitive: true }] });
  const { data } = await berth.variables.resolve(web);
  expect(data.map(({ name, value }) => [name, value])).toEqual([
    ["SCOPE", "environment"],
    ["SECRET", undefined],
  ]);
  expect((await berth.variables.reveal(web, "SECRET")).value).toBe("s");
  const revealed = (await berth.variables.revealResolved(web)).data.find(({ name }) => name === "SECRET");
  expect(revealed).toMatchObject({ value: "s", sensitive: true });
  expect((await berth.variables.impact(project, "SCOPE")).total).toBe(0);
  const missing = await berth.variables.get(project, "SECRET").catch((error: unknown) => error);
  expect(isRefusal(missing, "not_found")).toBe(true);
});

test("a write that names an old ETag is refused", async () => {
  const at = await place("web");
  const { environmentId: _, service: __, ...project } = at;
  await berth.variables.create(project, { name: "COLOR", value: "red" });
  let ifMatch = "";
  await berth.variables.get(project, "COLOR", {
    onHead: ({ headers }) => {
      ifMatch = headers.get("etag")!;
    },
  });
  await berth.variables.update(project, "COLOR", { value: "blue" }, { ifMatch });
  const late = await berth.variables
    .update(project, "COLOR", { value: "green" }, { ifMatch })
    .catch((error: unknown) => error);
  expect(isRefusal(late, "revision_conflict")).toBe(true);
  expect((await berth.variables.get(project, "COLOR")).value).toBe("blue");
});
