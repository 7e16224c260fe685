import { afterAll, beforeAll, expect, test } from "vitest";
import { buildingService } from "../builds/testing-builds.ts";
import { startLocalEngine } from "../engine/local.ts";
import { archiveOf, startDeployer, type TestDeployer } from "../testing/testing.ts";

let berth: TestDeployer;
/** The builds that have begun: that, too, discards what is there of them. */
const begun = new Set<string>();
let refusals = 0;

beforeAll(async () => {
  berth = await startDeployer({}, async (config, secrets, log) => {
    const { builder, ...engine } = await startLocalEngine(config as never, secrets, log);
    const discard: typeof builder.discard = async (build) => {
      if (!begun.has(build.buildId)) return void begun.add(build.buildId);
      refusals++;
      throw new Error("the registry is away");
    };
    return { ...engine, builder: { ...builder, discard } };
  });
});
afterAll(() => berth?.stop());

test("while nothing can be discarded, a service is deployed and its status is seen all the same", async () => {
  const { path, archive, deployArchive, until, untilService } = await buildingService(berth, "exit 3");
  await deployArchive(path, archive);
  await until(path, 1, "failed");
  await deployArchive(path, await archiveOf({ "index.html": "one" }));
  await until(path, 2, "applied");
  await untilService(path, "running");
  expect(refusals).toBeGreaterThan(0);
});
