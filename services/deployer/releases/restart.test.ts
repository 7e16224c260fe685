import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs, archiveOf, startDeployer, type TestDeployer, untilWork, visit } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

/** Answers with its process and one of its variables. */
const app = {
  "package.json": JSON.stringify({ name: "app", scripts: { start: "node server.js" } }),
  "server.js": `require("node:http").createServer((q, r) => r.end(process.pid + " " + process.env.GREETING))
    .listen(process.env.PORT)`,
};

async function webService(config: object = {}) {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  const made = await acting.catalog.createService({
    ...environment,
    name: "web",
    type: "web",
    config: { minReadySeconds: 0, ...config },
  });
  return { ...acting, environment, id: made.id, path: environment.at("web") };
}

test("a restart gives the live release new processes, the same variables and no version", async () => {
  const { accountId, catalog, deployments, deployArchive, id, path, service, untilService } =
    await webService({ autoApply: false });
  const greet = (value: string) => berth.variables.set(id, [{ name: "GREETING", value }]);
  greet("hello");
  await deployArchive(path, await archiveOf(app));
  const { url } = await untilService(path, "running");
  const before = (await visit(url!)).text;
  expect(before).toMatch(/ hello$/);
  greet("changed");
  await berth.variables.changed(accountId, "service", id);
  await eventually("the change is noted", async () => (await service(path)).pendingChanges);

  expect(await catalog.restartService(path)).toMatchObject({ id, liveVersion: 1 });
  const after = await eventually("another process answers", async () => {
    const { status, text } = await visit(url!);
    expect(status).toBe(200);
    return text !== before && text;
  });
  expect(after).toMatch(/ hello$/);
  await untilService(path, "running");
  expect((await deployments.listDeployments(path)).data).toMatchObject([{ version: 1, status: "applied" }]);
  expect((await service(path)).pendingChanges).toBe(true);
  const { rows } = await berth.pool.query("select rolls from services where id = $1", [id]);
  expect(rows).toEqual([{ rolls: 1 }]);
  expect((await visit(url!)).text).toBe(after);
});

test("a service that crashed, or whose restart is asked for in a row, is started anew", async () => {
  const { catalog, deployArchive, path, untilService } = await webService();
  await deployArchive(path, await archiveOf({ ...app, "server.js": "console.log('no'); process.exit(1)" }));
  await untilService(path, "crashed");
  await Promise.all([1, 2, 3].map(() => catalog.restartService(path)));
  await untilService(path, "deploying");
  await untilService(path, "crashed");
});

test("what is not live, staged, deleting or an addon is not restarted", async () => {
  const { accountId, catalog, deployments, environment, id, path } = await webService();
  expect(await refused(catalog.restartService(path))).toBe("409 service_not_live");
  expect(await refused(catalog.restartService(environment.at("none")))).toBe("404 not_found");
  await catalog.createService({ ...environment, name: "later", type: "web", staged: true });
  expect(await refused(catalog.restartService(environment.at("later")))).toBe("409 service_staged");
  await catalog.createService({ ...environment, name: "db", type: "postgres" });
  expect(await refused(catalog.restartService(environment.at("db")))).toBe(
    "422 validation_failed not_deployable",
  );
  await untilWork(berth.pool, id, "done");
  const open = berth.variables.hold();
  await deployments.deploy({ ...path, image: "shop/web:1" });
  await untilWork(berth.pool, id, "begun");
  await catalog.deleteService(path);
  expect(await refused(catalog.restartService(path))).toBe("409 service_deleting");
  open();
  const reader = actAs(berth.port, accountId, "reader");
  expect(await refused(reader.catalog.restartService(path))).toBe("403 forbidden");
});
