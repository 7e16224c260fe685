import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { findProcessesOf } from "../shared/process-tree.ts";
import { archiveOf, createWebService, startDeployer, type TestDeployer, visit } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

const page = (text: string) => archiveOf({ "index.html": text });
const runsFolder = () => join(berth.dataDir, "runtime", "runs");

/** A web service whose version 1, without a release command, runs. `set` changes the command. */
async function webService() {
  const web = await createWebService(berth.port);
  await web.deployArchive(web.path, await page("one"));
  const { url } = await web.untilService(web.path, "running");
  const set = (releaseCommand: string) =>
    web.catalog.updateService({ ...web.path, config: { releaseCommand } });
  const logs = async (version: number) => (await web.deployments.getBuildLogs({ ...web.path, version })).logs;
  const shown = async () => (await visit(url!)).text;
  const file = join(berth.dataDir, `${web.id}.txt`);
  return { ...web, set, logs, shown, file };
}

test("a release command runs once, with the new source and the variables, before the release is live", async () => {
  const web = await webService();
  berth.variables.set(web.id, [
    { name: "GREETING", value: "hello" },
    { name: "SECRET", value: "not-for-the-log", sensitive: true },
  ]);
  await web.set(
    `echo "$GREETING $SECRET from $(cat index.html)"; echo ran >> ${web.file}; while [ ! -e ${web.file}.go ]; do sleep 0.05; done`,
  );
  await web.deployArchive(web.path, await page("two"));
  await eventually("its output is in the log", async () => (await web.logs(2)).includes("from two"));
  expect((await web.deployments.getDeployment({ ...web.path, version: 2 })).status).toBe("built");
  expect((await web.deployments.getBuildLogs({ ...web.path, version: 2 })).live).toBe(true);
  expect(await web.logs(2)).toContain("hello ");
  expect(await web.logs(2)).not.toContain("not-for-the-log");
  expect(await web.shown()).toBe("one");
  writeFileSync(`${web.file}.go`, "");
  await web.until(web.path, 2, "applied");
  await eventually("the new release serves", async () => (await web.shown()) === "two");
  expect(readFileSync(web.file, "utf8")).toBe("ran\n");
  await eventually("nothing is left of the run", async () =>
    readdirSync(runsFolder()).every((name) => findProcessesOf(join(runsFolder(), name)).length === 0),
  );
  // A rollback runs no command.
  await web.deployments.rollback({ ...web.path, version: 1 });
  await web.until(web.path, 3, "applied");
  expect(readFileSync(web.file, "utf8")).toBe("ran\n");
});

test("a release command that fails fails the deployment, and what runs stays", async () => {
  const web = await webService();
  await web.set("echo about to migrate; echo no such table >&2; exit 3");
  await web.deployArchive(web.path, await page("two"));
  const failed = await web.until(web.path, 2, "failed");
  expect(failed.errors).toMatchObject([{ stage: "release", code: "release_command_failed" }]);
  expect(failed.errors[0]!.message).toContain("exit code 3");
  expect(failed.errors[0]!.message).toContain("no such table");
  expect(await web.logs(2)).toContain("about to migrate\nno such table\n");
  expect((await web.service(web.path)).liveVersion).toBe(1);
  expect(await web.shown()).toBe("one");
  await web.set("");
  await web.deployArchive(web.path, await page("three"));
  await web.until(web.path, 3, "applied");
});

test("a canceled deployment ends its release command", async () => {
  const web = await webService();
  await web.set(`echo $$ > ${web.file}; echo waiting; sleep 600`);
  const { id } = await web.deployArchive(web.path, await page("two"));
  await eventually("it runs", async () => (await web.logs(2)).includes("waiting"));
  const canceled = await web.deployments.cancelDeployment({ ...web.path, version: 2 });
  expect(canceled.errors).toMatchObject([{ code: "canceled" }]);
  const folder = join(runsFolder(), `release-${id.toLowerCase().replace("_", "-")}`);
  await eventually("its processes are gone", async () => !existsSync(folder));
  expect(findProcessesOf(folder)).toEqual([]);
  expect((await web.service(web.path)).liveVersion).toBe(1);
});

test("a later deployment ends the release command of an earlier one before it runs its own", async () => {
  const web = await webService();
  await web.set(`trap 'echo ended >> ${web.file}; exit 1' TERM; echo waiting; while :; do sleep 0.05; done`);
  await web.deployArchive(web.path, await page("two"));
  await eventually("it runs", async () => (await web.logs(2)).includes("waiting"));
  await web.set(`echo next >> ${web.file}`);
  await web.deployArchive(web.path, await page("three"));
  await web.until(web.path, 3, "applied");
  expect(readFileSync(web.file, "utf8")).toBe("ended\nnext\n");
  expect((await web.deployments.getDeployment({ ...web.path, version: 2 })).status).toBe("superseded");
});
