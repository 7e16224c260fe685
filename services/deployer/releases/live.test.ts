import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs, archiveOf, exampleApp, startDeployer, type TestDeployer, visit } from "../testing/testing.ts";
import { echo, echoService, environmentAt } from "./testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

const beginning = (stream: AsyncIterable<unknown>) => stream[Symbol.asyncIterator]().next();

test("an archive is built, applied and answers at the service's URL with its variables", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  const config = { healthCheckPath: "/healthz" };
  const { id } = await acting.catalog.createService({ ...environment, name: "web", type: "web", config });
  berth.variables.set(id, [{ name: "GREETING", value: "Good morning" }]);
  const path = environment.at("web");
  const accepted = await acting.deployArchive(path, await archiveOf(await exampleApp("node")));
  expect(accepted).toMatchObject({ version: 1, status: "queued", serviceId: id });
  const service = await acting.untilService(path, "running");
  expect(service).toMatchObject({ liveVersion: 1, pendingChanges: false });
  expect(service.url).toBe(`http://web-production-${environment.project}.localhost:${berth.env.ROUTER_PORT}`);
  expect((await visit(service.url!)).text).toMatch(/^Good morning\n/);

  const done = await acting.deployments.getDeployment({ ...path, version: 1 });
  expect(done).toMatchObject({ status: "applied", errors: [], warnings: [] });
  expect([done.buildStage, done.finishedAt]).toEqual([undefined, undefined]);
  const times = [done.createdAt, done.buildStartedAt, done.builtAt, done.appliedAt, done.healthyAt];
  const ms = times.map((at) => Number(at!.seconds) * 1000 + at!.nanos / 1e6);
  expect(ms).toEqual(ms.toSorted((one, other) => one - other));
  const logs = await acting.deployments.getBuildLogs({ ...path, version: 1 });
  expect(logs).toMatchObject({ version: 1, truncated: false, live: false });
  expect(logs.logs).toContain("node");
  const kinds = await eventually("its events arrive", async () => {
    const found = await berth.eventsOf(acting.accountId);
    return found.includes("ReleaseHealthy") && found;
  });
  for (const move of ["Queued", "Building", "Built", "Applied"]) expect(kinds).toContain(`Deployment${move}`);
});

test("a changed configuration is pending until a deploy without an image runs the same build with it", async () => {
  const { catalog, deployments, path, url, ...acting } = await echoService(berth);
  await catalog.updateService({ ...path, config: { env: { COLOUR: "blue" } } });
  expect((await acting.service(path)).pendingChanges).toBe(true);
  expect((await environmentAt(url)).COLOUR).toBeUndefined();
  const second = await deployments.deploy(path);
  expect([second.version, second.image, second.buildId]).toEqual([2, undefined, undefined]);
  await acting.until(path, 2, "applied");
  await eventually("it runs", async () => (await environmentAt(url)).COLOUR === "blue");
  const service = await eventually("version 2 serves", async () => {
    const found = await acting.service(path);
    return found.liveVersion === 2 && found;
  });
  expect(service.pendingChanges).toBe(false);
});

test("a failed build reports its stage, and leaves what runs alone", async () => {
  const { path, url, ...acting } = await echoService(berth);
  await acting.deployArchive(path, await archiveOf({ "notes.txt": "nothing to run" }));
  const failed = await acting.until(path, 2, "failed");
  expect(failed.errors).toMatchObject([{ stage: "detect" }]);
  expect(failed.finishedAt).toBeDefined();
  expect((await visit(url)).status).toBe(200);
  expect(await acting.service(path)).toMatchObject({ status: "running", liveVersion: 1 });
});

test("an app that ends again and again makes the service crashed, and the deployment says why", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  await acting.catalog.createService({ ...environment, name: "bad", type: "worker" });
  const path = environment.at("bad");
  const { id } = await acting.service(path);
  berth.variables.set(id, [{ name: "SECRET", value: "marker-9c1f", sensitive: true }]);
  const files = {
    ...echo,
    "server.js": `console.error("no database here", process.env.SECRET); process.exit(7);`,
  };
  await acting.deployArchive(path, await archiveOf(files));
  const crashed = await acting.untilService(path, "crashed");
  expect(crashed.statusMessage).toContain("no database here");
  expect(crashed.statusMessage).not.toContain("marker-9c1f");
  const found = await acting.deployments.getDeployment({ ...path, version: 1 });
  expect(found).toMatchObject({ status: "applied", warnings: [{ stage: "rollout", code: "crash_loop" }] });
  expect(found.healthyAt).toBeUndefined();
});

test("what an app writes can be read by stream and version, newest first, in pages", async () => {
  const { path, url, deployments } = await echoService(berth);
  for (const at of ["/a", "/b", "/c"]) await visit(url, at);
  const all = await eventually("the lines are there", async () => {
    const { data } = await deployments.listLogs({ ...path, stream: "stdout", version: 1 });
    return data.some((line) => line.message === "asked for /c") && data;
  });
  expect(all.map((line) => line.message)).toEqual(
    ["started with revision 1", "asked for /a", "asked for /b", "asked for /c"].toReversed(),
  );
  expect(all[0]).toMatchObject({ stream: "stdout", version: 1 });
  const first = await deployments.listLogs({ ...path, limit: 2 });
  const rest = await deployments.listLogs({ ...path, cursor: first.page!.nextCursor });
  expect([...first.data, ...rest.data]).toEqual(all);
  expect((await deployments.listLogs({ ...path, stream: "stderr" })).data).toEqual([]);
  expect((await deployments.listLogs({ ...path, version: 9 })).data).toEqual([]);
  const other = await echoService(berth);
  const forged = Buffer.from("log:0").toString("base64url");
  for (const cursor of ["nonsense", forged])
    expect(await refused(deployments.listLogs({ ...path, cursor }))).toBe("400 malformed_request");
  const cursor = first.page!.nextCursor;
  expect(await refused(other.deployments.listLogs({ ...other.path, cursor }))).toBe("400 malformed_request");
  for (const stream of [
    deployments.followLogs({ ...path, lastEventId: forged }),
    other.deployments.followLogs({ ...other.path, lastEventId: cursor }),
  ])
    expect(await refused(beginning(stream))).toBe("400 malformed_request");
  expect(await refused(deployments.listLogs({ ...path, limit: 1001 }))).toBe(
    "422 validation_failed out_of_range",
  );
  expect(await refused(deployments.listLogs({ ...path, stream: "both" }))).toBe(
    "422 validation_failed invalid_choice",
  );
});

test("deleting what is live needs a confirmation, and leaves no process, file or row", async () => {
  const { catalog, environment, path, id, url, accountId } = await echoService(berth);
  const { projectId, environmentId } = environment;
  const impact = { total: 1, services: [{ id, name: "echo", environmentId }] };
  const calls = [
    catalog.deleteService(path),
    catalog.deleteEnvironment(environment),
    catalog.deleteProject({ accountId, projectId, confirmImpact: false }),
  ];
  for (const said of await Promise.all(calls.map(refusal)))
    expect(said).toMatchObject({ status: 409, code: "impact_confirmation_required", context: { impact } });
  expect((await visit(url)).status).toBe(200);

  await catalog.deleteProject({ accountId, projectId, confirmImpact: true });
  await eventually("the rows are gone", async () => {
    const left = await berth.pool.query(
      `select id from projects where id = $1 union all select id from services where id = $2
       union all select id from deployments where service_id = $2 union all select service_id from work where service_id = $2`,
      [projectId, id],
    );
    return left.rowCount === 0;
  });
  expect((await visit(url)).status).toBe(404);
  const files = await readdir(berth.dataDir, { recursive: true });
  expect(files.filter((file) => file.includes(id))).toEqual([]);
  const built = await readdir(join(berth.dataDir, "artifacts")).catch(() => []);
  const kept = await berth.pool.query("select build_id from deployments where build_id is not null");
  const known = kept.rows.map((row) => row.build_id);
  expect(built.filter((name) => name.startsWith("bld_") && !known.includes(name))).toEqual([]);
});
