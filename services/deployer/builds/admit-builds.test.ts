import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { actAs, archiveOf, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { archiveWith, newFile, pidIn, waitFor } from "./testing-builds.ts";

// Who builds when more is to be built than slots allow. On this plan, two of the three slots may be one account's.

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ BUILDS_AT_ONCE: "3", DEFAULT_TIER: "pro" });
});
afterAll(() => berth?.stop());

/** An account that has deployed this many services, whose builds run until they are let go. */
async function accountWithBuilds(count: number) {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  async function deploy(n: number) {
    const [go, pid] = [newFile(berth, "go"), newFile(berth, "pid")];
    const path = environment.at(`web${n}`);
    await acting.catalog.createService({ ...environment, name: path.service, type: "web" });
    await acting.deployArchive(path, await archiveWith(waitFor(go, pid)));
    const finish = async () => {
      await writeFile(go, "");
      return acting.until(path, 1, "applied");
    };
    return { path, begun: () => pidIn(pid), hasBegun: () => existsSync(pid), finish };
  }
  const builds: Awaited<ReturnType<typeof deploy>>[] = [];
  for (let n = 0; n < count; n++) builds.push(await deploy(n));
  const deployment = (n: number) => acting.deployments.getDeployment({ ...builds[n]!.path, version: 1 });
  return { ...acting, builds, deployment };
}

test("twenty slow builds of an account do not make another's wait for more than the end of one", async () => {
  const busy = await accountWithBuilds(20);
  for (const { begun } of busy.builds.slice(0, 2)) await begun();

  // The third slot is not the busy account's to take.
  const second = await accountWithBuilds(1);
  await second.builds[0]!.begun();
  expect(busy.builds.filter((build) => build.hasBegun())).toHaveLength(2);

  // No slot is free: it waits, and begins before what has waited longer.
  const third = await accountWithBuilds(1);
  const waiting = await third.deployment(0);
  expect([waiting.status, waiting.buildStage, waiting.buildStartedAt]).toEqual([
    "queued",
    undefined,
    undefined,
  ]);
  const ended = await busy.builds[0]!.finish();
  await third.builds[0]!.begun();
  expect(busy.builds.filter((build) => build.hasBegun())).toHaveLength(2);
  const { buildStartedAt } = await third.deployment(0);
  expect(timestampMs(buildStartedAt!)).toBeGreaterThanOrEqual(timestampMs(ended.builtAt!));

  // What is canceled or superseded meanwhile has no place in the line.
  const [, , canceled, superseded, next, last] = busy.builds;
  await busy.deployments.cancelDeployment({ ...canceled!.path, version: 1 });
  await busy.deployArchive(superseded!.path, await archiveOf({ "index.html": "<h1>newer</h1>" }));
  await second.builds[0]!.finish();
  await next!.begun();
  expect((await busy.deployment(2)).errors).toMatchObject([{ code: "canceled" }]);
  expect((await busy.deployment(3)).status).toBe("superseded");

  // One that is canceled while it builds leaves its slot.
  await busy.deployments.cancelDeployment({ ...busy.builds[1]!.path, version: 1 });
  await last!.begun();
  expect([canceled!.hasBegun(), superseded!.hasBegun()]).toEqual([false, false]);
  await third.builds[0]!.finish();
});
