import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startedOf } from "../shared/process-tree.ts";
import { archiveOf, FREE_PLAN, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { buildingService, newFile, pidIn, waitFor } from "./testing-builds.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer(FREE_PLAN);
});
afterAll(() => berth?.stop());

const building = (script: string) => buildingService(berth, script);
const fileOf = (name: string) => newFile(berth, name);

const artifacts = () => readdir(join(berth.dataDir, "artifacts"));

test("a newer deployment ends the build of an older one, whose log is kept", async () => {
  const [go, pid] = [fileOf("go"), fileOf("pid")];
  const { path, archive, deployments, deployArchive, until, untilService } = await building(waitFor(go, pid));
  const first = await deployArchive(path, archive);
  const process = await pidIn(pid);
  const live = await eventually("its output can be read while it builds", async () => {
    const found = await deployments.getBuildLogs({ ...path, version: 1 });
    return found.logs.includes("begun") && found;
  });
  expect([live.live, live.truncated]).toEqual([true, false]);

  const second = await deployArchive(path, await archiveOf({ "index.html": "<h1>second</h1>" }));
  await writeFile(go, "");
  const superseded = await deployments.getDeployment({ ...path, version: 1 });
  expect([superseded.status, superseded.buildStage]).toEqual(["superseded", undefined]);
  expect(superseded.finishedAt).toBeDefined();
  await until(path, 2, "applied");
  expect(await untilService(path, "running")).toMatchObject({ liveVersion: 2 });
  await eventually("nothing of the older build is left", async () => {
    const left = await artifacts();
    return startedOf(process) === undefined && !left.includes(first.buildId!);
  });
  expect(await artifacts()).toContain(second.buildId);
  const kept = await deployments.getBuildLogs({ ...path, version: 1 });
  expect([kept.live, kept.logs.includes("begun")]).toEqual([false, true]);
});

test("deleting a service ends its build", async () => {
  const pid = fileOf("pid");
  const { path, archive, catalog, deployArchive } = await building(waitFor("/nowhere", pid));
  const { buildId } = await deployArchive(path, archive);
  const process = await pidIn(pid);
  await catalog.deleteService(path);
  await eventually("the service is gone", () =>
    refused(catalog.getService(path)).then(
      (said) => said === "404 not_found",
      () => false,
    ),
  );
  expect(startedOf(process)).toBeUndefined();
  expect(await artifacts()).not.toContain(buildId);
});

test("a build past its time fails, and is ended", async () => {
  const pid = fileOf("pid");
  const { path, id, archive, deployArchive, until } = await building(waitFor("/nowhere", pid));
  await deployArchive(path, archive);
  const process = await pidIn(pid);
  await berth.pool.query(
    `with late as (update deployments set build_started_at = now() - interval '15 minutes' where service_id = $1)
     update work set next_at = now() where service_id = $1`,
    [id],
  );
  const failed = await until(path, 1, "failed");
  expect(failed.errors).toMatchObject([{ stage: "build", code: "build_timeout" }]);
  await eventually("its process is gone", async () => startedOf(process) === undefined);
});

test("a failed build reports why, in the deployment and in its log", async () => {
  const { path, archive, deployments, deployArchive, until } = await building(
    "echo no compiler here; exit 3",
  );
  await deployArchive(path, archive);
  const failed = await until(path, 1, "failed");
  expect(failed.errors).toMatchObject([{ stage: "build", code: "compile_failed" }]);
  const { logs } = await deployments.getBuildLogs({ ...path, version: 1 });
  expect(logs).toContain("no compiler here");
  expect(logs).toContain(failed.errors[0]!.message);
});

test("values of sensitive variables are masked in the build's log", async () => {
  const marker = `marker-${newId("x")}`;
  const script = `echo "the password is ${marker}!"; echo "it is public"`;
  const { path, id, archive, deployments, deployArchive, until } = await building(script);
  berth.variables.set(id, [
    { name: "PASSWORD", value: marker, sensitive: true },
    { name: "PLAIN", value: "public" },
  ]);
  await deployArchive(path, archive);
  await until(path, 1, "applied");
  const { logs } = await deployments.getBuildLogs({ ...path, version: 1 });
  expect(logs).toContain("the password is ***!");
  expect(logs).toContain("it is public");
  const stored = await berth.pool.query("select from build_logs where text like '%' || $1 || '%'", [marker]);
  expect(stored.rowCount).toBe(0);
});

test("of a long log the newest mebibyte is kept, from the start of a line", async () => {
  const script =
    "i=0; while [ $i -lt 40000 ]; do echo line $i of a build that has a lot to tell; i=$((i+1)); done";
  const { path, id, archive, deployments, deployArchive, until } = await building(script);
  await deployArchive(path, archive);
  await until(path, 1, "applied");
  const { logs, truncated } = await deployments.getBuildLogs({ ...path, version: 1 });
  expect(truncated).toBe(true);
  expect(Buffer.byteLength(logs)).toBeLessThanOrEqual(1024 * 1024);
  expect(Buffer.byteLength(logs)).toBeGreaterThan(1024 * 1024 - 100);
  expect(logs).toMatch(/^line \d+ of/);
  expect(logs).toContain("line 39999 of");
  const stored = await berth.pool.query<{ bytes: number }>(
    `select sum(octet_length(text))::float8 as bytes from build_logs b
     join deployments d on d.id = b.deployment_id where d.service_id = $1`,
    [id],
  );
  expect(stored.rows[0]!.bytes).toBeLessThan(1.2 * 1024 * 1024);
});

test("builds beyond the slots of a deployer wait in the queue, and begin when one is free", async () => {
  const files = [1, 2, 3].map(() => ({ go: fileOf("go"), pid: fileOf("pid") }));
  const all = await Promise.all(files.map(({ go, pid }) => building(waitFor(go, pid))));
  const [one, two, three] = all as [(typeof all)[0], (typeof all)[0], (typeof all)[0]];
  await one.deployArchive(one.path, one.archive);
  await two.deployArchive(two.path, two.archive);
  await Promise.all(files.slice(0, 2).map(({ pid }) => pidIn(pid)));
  await three.deployArchive(three.path, three.archive);
  // Something else that the deployer has done since then: the third had its turn.
  await one.catalog.createService({ ...one.path, name: "db", type: "postgres" });
  await one.untilService({ ...one.path, service: "db" }, "running");
  expect((await three.deployments.getDeployment({ ...three.path, version: 1 })).status).toBe("queued");
  await writeFile(files[0]!.go, "");
  await pidIn(files[2]!.pid);
  for (const { go } of files) await writeFile(go, "");
  for (const each of all) await each.until(each.path, 1, "applied");
});
