import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { endProcesses, findProcessesOf } from "../shared/process-tree.ts";
import { archiveOf, createWebService, startTestPlatform, type TestPlatform } from "../testing/testing.ts";
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

/** A web service whose release command has written its first line and waits for the file `go`; it says how often it ran. */
async function atItsCommand() {
  const web = await createWebService(platform.port);
  const file = join(platform.dataDir, web.id);
  const releaseCommand = `echo ran >> ${file}; echo begun; while [ ! -e ${file}.go ]; do sleep 0.05; done; echo done`;
  await web.catalog.updateService({ ...web.path, config: { releaseCommand } });
  const { id } = await web.deployArchive(web.path, await archiveOf({ "index.html": "one" }));
  const logs = async () => (await web.deployments.getBuildLogs({ ...web.path, version: 1 })).logs;
  await eventually("it runs", async () => (await logs()).includes("begun"));
  const folder = join(platform.dataDir, "runtime", "runs", `release-${id.toLowerCase().replace("_", "-")}`);
  return {
    ...web,
    logs,
    folder,
    runs: () => readFileSync(file, "utf8"),
    go: () => writeFileSync(`${file}.go`, ""),
  };
}

test("killed while a release command runs: it runs on, and the next start awaits it", async () => {
  await deployer.run();
  const { path, until, logs, runs, go } = await atItsCommand();
  await deployer.end("SIGKILL");
  await deployer.run();
  go();
  await until(path, 1, "applied");
  expect(runs()).toBe("ran\n");
  expect((await logs()).match(/begun\ndone\n/g)).toHaveLength(1);
});

test("a release command that ended with its machine is not run again: the deployment fails and says so", async () => {
  await deployer.run();
  const { path, until, runs, folder } = await atItsCommand();
  await deployer.end("SIGKILL");
  await endProcesses(undefined, folder, () => Date.now());
  expect(findProcessesOf(folder)).toEqual([]);
  await deployer.run();
  const { errors } = await until(path, 1, "failed");
  expect(errors).toMatchObject([{ stage: "release", code: "release_command_lost" }]);
  expect(errors[0]!.message).toContain("was not run again");
  expect(runs()).toBe("ran\n");
});
