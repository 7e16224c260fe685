import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { findProcessesOf } from "../shared/process-tree.ts";
import {
  actAs,
  archiveOf,
  createWebService,
  startDeployer,
  type TestDeployer,
  visit,
} from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

/** An app whose build says where it is and never ends. */
const endless = () =>
  archiveOf({
    "package.json": JSON.stringify({
      name: "app",
      scripts: { build: "echo it builds; while :; do sleep 0.02; done", start: "node server.js" },
    }),
    "server.js": "",
  });
const page = (text: string) => archiveOf({ "index.html": text });

const webService = () => createWebService(berth.port);

const artifactOf = (buildId: string) => join(berth.dataDir, "artifacts", buildId);

test("a canceled build ends with its processes, and the live release keeps running", async () => {
  const { accountId, deployments, deployArchive, path, until, untilService } = await webService();
  await deployArchive(path, await page("one"));
  const { url } = await untilService(path, "running");
  const { buildId } = await deployArchive(path, await endless());
  await eventually("it builds", async () =>
    (await deployments.getBuildLogs({ ...path, version: 2 })).logs.includes("it builds"),
  );
  const canceled = await deployments.cancelDeployment({ ...path, version: 2 });
  expect(canceled).toMatchObject({
    version: 2,
    status: "failed",
    errors: [{ stage: "build", code: "canceled" }],
  });
  expect(canceled.finishedAt).toBeDefined();
  await eventually("nothing of the build is left", async () => {
    const folder = artifactOf(buildId!);
    return !existsSync(folder) && findProcessesOf(folder).length === 0;
  });
  expect((await deployments.getBuildLogs({ ...path, version: 2 })).logs).toContain("it builds");
  expect((await untilService(path, "running")).liveVersion).toBe(1);
  expect((await visit(url!)).text).toBe("one");
  expect(
    await eventually("the event arrived", async () =>
      (await berth.eventsOf(accountId)).includes("DeploymentFailed"),
    ),
  ).toBe(true);
  expect(await refused(deployments.cancelDeployment({ ...path, version: 2 }))).toBe(
    "409 deployment_finished",
  );
  await deployArchive(path, await page("three"));
  await until(path, 3, "applied");
});

test("what waits to be applied is canceled, and never applied", async () => {
  const { deployments, deployArchive, id, path, until, untilService } = await webService();
  await deployArchive(path, await page("one"));
  await until(path, 1, "applied");
  berth.variables.setAway(true);
  await deployments.deploy({ ...path, image: "shop/web:1" });
  const canceled = await deployments.cancelDeployment({ ...path, version: 2 });
  expect(canceled.errors).toMatchObject([{ stage: "queue", code: "canceled" }]);
  berth.variables.setAway(false);
  await eventually("all is quiet", async () => {
    const due = await berth.pool.query(
      "select from work where service_id = $1 and next_at is null and lease_owner is null",
      [id],
    );
    return due.rowCount === 1;
  });
  expect(await deployments.getDeployment({ ...path, version: 2 })).toEqual(canceled);
  expect((await untilService(path, "running")).liveVersion).toBe(1);
});

test("canceling and the end of the pipeline at the same moment: one of them holds", async () => {
  const { deployments, deployArchive, path, service, until } = await webService();
  const outcomes = new Set<string>();
  for (let version = 1; version <= 6; version++) {
    await deployArchive(path, await page(`edition ${version}`));
    if (version % 2 === 0) await until(path, version, "built", "applied", "failed");
    const canceled = await deployments.cancelDeployment({ ...path, version }).then(
      () => true,
      () => false,
    );
    const end = await until(path, version, "applied", "failed");
    expect(end.status).toBe(canceled ? "failed" : "applied");
    expect(end.errors.map((error) => error.code)).toEqual(canceled ? ["canceled"] : []);
    outcomes.add(end.status);
  }
  const last = await deployments.listDeployments(path);
  const live = last.data.find((one) => one.status === "applied")?.version;
  await eventually("what applied last is live", async () => (await service(path)).liveVersion === live);
});

test("an unknown version, a finished one and a reader's wish cancel nothing", async () => {
  const { accountId, deployments, deployArchive, environment, path, until } = await webService();
  expect(await refused(deployments.cancelDeployment({ ...path, version: 1 }))).toBe("404 not_found");
  const none = environment.at("none");
  expect(await refused(deployments.cancelDeployment({ ...none, version: 1 }))).toBe("404 not_found");
  await deployArchive(path, await page("one"));
  await until(path, 1, "applied");
  expect(await refused(deployments.cancelDeployment({ ...path, version: 1 }))).toBe(
    "409 deployment_finished",
  );
  const reader = actAs(berth.port, accountId, "reader");
  expect(await refused(reader.deployments.cancelDeployment({ ...path, version: 1 }))).toBe("403 forbidden");
});
