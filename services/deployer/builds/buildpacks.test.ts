import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { actAs, archiveOf, startDeployer, type TestDeployer } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

test("on one machine a service that asks for buildpacks fails with what to do, and is built once it no longer does", async () => {
  const { catalog, environment, deployArchive, until } = actAs(berth.port, newId("acc"));
  const shop = await environment();
  const path = shop.at("web");
  const config = { builder: "buildpacks" };
  const made = await catalog.createService({ ...shop, name: "web", type: "web", config });
  expect(made.config).toMatchObject(config);
  const archive = await archiveOf({ "index.html": "<h1>hello</h1>" });
  await deployArchive(path, archive);
  const { errors, buildpacks } = await until(path, 1, "failed");
  expect(errors).toMatchObject([{ stage: "detect", code: "buildpacks_need_cluster" }]);
  expect(buildpacks).toEqual([]);
  await catalog.updateService({ ...path, config: { builder: "auto" } });
  await deployArchive(path, archive);
  await until(path, 2, "applied");
  const other = catalog.updateService({ ...path, config: { builder: "magic" } });
  expect(await refused(other)).toContain("422 validation_failed");
});
