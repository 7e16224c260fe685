import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startedOf } from "../shared/process-tree.ts";
import {
  archiveOf,
  createWebService,
  exampleApp,
  startTestPlatform,
  type TestPlatform,
  visit,
} from "../testing/testing.ts";
import { type DeployerProcess, deployerProcess } from "../testing/testing-process.ts";

let platform: TestPlatform;
let deployer: DeployerProcess;

beforeAll(async () => {
  platform = await startTestPlatform();
  deployer = deployerProcess(platform);
});
afterEach(() => deployer.end("SIGTERM"));
afterAll(async () => {
  await deployer?.end("SIGKILL");
  await platform?.stop();
});

const webService = () => createWebService(platform.port);

/** An app whose build waits until the file `go` exists. */
async function slowApp(go: string): Promise<Buffer> {
  const manifest = { name: "slow", scripts: { build: "sh build.sh", start: "node server.js" } };
  return archiveOf({
    ...(await exampleApp("node")),
    "package.json": JSON.stringify(manifest),
    "build.sh": `while [ ! -e ${go} ]; do sleep 0.05; done; echo went on`,
  });
}

const statuses = async (serviceId: string) =>
  (
    await platform.pool.query<{ status: string }>(
      "select status from deployments where service_id = $1 order by version",
      [serviceId],
    )
  ).rows.map((row) => row.status);

/** Waits until a build has all that it asks others for. */
const untilBuilderWorks = ({ path, deployments }: Awaited<ReturnType<typeof webService>>) =>
  eventually("the builder is at work", async () => {
    const { buildStage } = await deployments.getDeployment({ ...path, version: 1 });
    return buildStage === "Building image";
  });

test("killed before a deployment has its variables: the next start builds and applies it", async () => {
  await deployer.run();
  const { path, id, until, untilService, deployArchive } = await webService();
  const open = platform.variables.hold();
  platform.variables.set(id, [{ name: "GREETING", value: "Good morning" }]);
  await deployArchive(path, await archiveOf(await exampleApp("node")));
  await deployer.end("SIGKILL");
  open();
  expect(["queued", "building"]).toContain((await statuses(id)).join());
  await deployer.run();
  await until(path, 1, "applied");
  expect((await visit((await untilService(path, "running")).url!)).text).toMatch(/^Good morning/);
});

test("killed while it builds: the next start builds again under the same deployment, with one clean log", async () => {
  await deployer.run();
  const service = await webService();
  const { path, id, until, untilService, deployArchive, deployments } = service;
  const go = join(platform.dataDir, `go-${id}`);
  const { id: deploymentId, buildId } = await deployArchive(path, await slowApp(go));
  await untilBuilderWorks(service);
  await deployer.end("SIGKILL");
  await writeFile(go, "");
  await deployer.run();
  const applied = await until(path, 1, "applied");
  expect([applied.id, applied.buildId]).toEqual([deploymentId, buildId]);
  await untilService(path, "running");
  const { logs } = await deployments.getBuildLogs({ ...path, version: 1 });
  expect(logs.split("went on").length - 1).toBe(1);
  expect((await deployments.listDeployments(path)).data).toHaveLength(1);
});

test("killed while it applies: the next start applies it", async () => {
  await deployer.run();
  const service = await webService();
  const { path, id, until, untilService, deployArchive } = service;
  const go = join(platform.dataDir, `go-${id}`);
  await deployArchive(path, await slowApp(go));
  await untilBuilderWorks(service);
  const open = platform.variables.hold();
  await writeFile(go, "");
  await until(path, 1, "built");
  await eventually("it has begun to apply", async () => {
    const found = await platform.pool.query(
      "select from deployments where service_id = $1 and apply_started_at is not null",
      [id],
    );
    return found.rowCount === 1;
  });
  await deployer.end("SIGKILL");
  open();
  await deployer.run();
  await until(path, 1, "applied");
  await untilService(path, "running");
});

test("killed while it rolls back: the next start runs the earlier version, once", async () => {
  await deployer.run();
  const { path, id, until, deployArchive, deployments, service } = await webService();
  for (const edition of ["one", "two"]) {
    const index = { "index.html": edition };
    const { version } = await deployArchive(path, await archiveOf(index));
    await eventually("it is live", async () => {
      const { healthyAt } = await deployments.getDeployment({ ...path, version });
      return healthyAt !== undefined;
    });
  }
  const open = platform.variables.hold();
  await deployments.rollback({ ...path, version: 1 });
  await deployer.end("SIGKILL");
  open();
  await deployer.run();
  await until(path, 3, "applied");
  await eventually("it runs", async () => {
    const { liveVersion, url } = await service(path);
    return liveVersion === 3 && (await visit(url!)).text.includes("one");
  });
  expect(await statuses(id)).toEqual(["applied", "applied", "applied"]);
});

test("killed while a service is deleted: the next start removes the rest", async () => {
  await deployer.run();
  const { path, until, deployArchive, catalog } = await webService();
  await deployArchive(path, await archiveOf(await exampleApp("node")));
  await until(path, 1, "applied");
  await Promise.all([
    catalog.deleteService({ ...path, confirmImpact: true }).then(() => deployer.end("SIGKILL")),
  ]);
  await deployer.run();
  await eventually("it is gone", () =>
    refused(catalog.getService(path)).then(
      (said) => said === "404 not_found",
      () => false,
    ),
  );
});

test("an app keeps running when the deployer is killed, is adopted by the next, and ends at SIGTERM", async () => {
  await deployer.run();
  const { path, deployArchive, untilService, service } = await webService();
  const files = {
    ...(await exampleApp("node")),
    "server.js":
      "require('node:http').createServer((q, r) => r.end(String(process.pid))).listen(process.env.PORT)",
  };
  await deployArchive(path, await archiveOf(files));
  const url = (await untilService(path, "running")).url!;
  const { text: pid } = await visit(url);
  await deployer.end("SIGKILL");
  await deployer.run();
  await eventually("it answers again", async () => (await visit(url)).text === pid);
  expect((await service(path)).status).toBe("running");
  expect(await deployer.end("SIGTERM")).toBe(0);
  expect(startedOf(Number(pid))).toBeUndefined();
  await deployer.run();
  await eventually("it is started again", async () => {
    const answer = await visit(url);
    return answer.status === 200 && answer.text !== pid;
  });
});

test("no value of a sensitive variable reaches the deployer's own output", async () => {
  const marker = `marker-${newId("x")}`;
  await deployer.run();
  const { path, id, deployArchive, untilService } = await webService();
  platform.variables.set(id, [{ name: "GREETING", value: marker, sensitive: true }]);
  await deployArchive(path, await archiveOf(await exampleApp("node")));
  const url = (await untilService(path, "running")).url!;
  expect((await visit(url)).text).toContain(marker);
  expect(deployer.output()).toContain("applied");
  expect(deployer.output()).not.toContain(marker);
});
