import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { freePort } from "../../kit/process/free-port.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { findProcessesOf } from "../shared/process-tree.ts";
import { actAs, archiveOf, exampleApp, startTestPlatform, type TestPlatform } from "../testing/testing.ts";
import { type DeployerProcess, deployerProcess, runningFolders } from "../testing/testing-process.ts";

let platform: TestPlatform;
let first: DeployerProcess;
let second: DeployerProcess;
let folder: string;

beforeAll(async () => {
  platform = await startTestPlatform();
  folder = await mkdtemp(join(tmpdir(), "berth-second-"));
  first = deployerProcess(platform);
  second = deployerProcess(platform);
});
afterAll(async () => {
  await Promise.all([first?.end("SIGTERM"), second?.end("SIGTERM")]);
  await platform?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

test("a second deployer with a folder of its own does not start, and nothing runs a second time", async () => {
  await first.run();
  const acting = actAs(platform.port, newId("acc"));
  const environment = await acting.environment();
  const types = inject("redisProgram") ? ["web", "redis"] : ["web"];
  for (const type of types) await acting.catalog.createService({ ...environment, name: type, type });
  await acting.deployArchive(environment.at("web"), await archiveOf(await exampleApp("node")));
  for (const type of types) await acting.untilService(environment.at(type), "running");
  const before = runningFolders(platform).sort();

  const [port, router] = [await freePort(), await freePort()];
  const other = { DATA_DIR: folder, PORT: String(port), ROUTER_PORT: String(router) };
  const ended = second.run(other).then(
    () => "runs",
    (error: Error) => error.message,
  );
  await eventually("it has ended", async () => !second.runs());
  expect(await ended).toMatch(/Another deployer works on this database/);
  expect([findProcessesOf(folder), await readdir(folder)]).toEqual([[], []]);
  expect(runningFolders(platform).sort()).toEqual(before);
  for (const type of types) await acting.untilService(environment.at(type), "running");

  await first.end("SIGKILL");
  await first.run(); // a killed one does not keep the place
  expect(runningFolders(platform).sort()).toEqual(before);
});
