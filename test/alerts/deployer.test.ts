import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { archiveWith, newFile, waitFor } from "../../services/deployer/builds/testing-builds.ts";
import * as tasks from "../../services/deployer/tasks.ts";
import {
  archiveOf,
  createWebService,
  startDeployer,
  type TestDeployer,
} from "../../services/deployer/testing/testing.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import type { TestNats } from "../support/servers/nats.ts";
import { expectAlert, metricIn, promtool, scraper } from "./evaluate.ts";

describe.skipIf(!promtool)("an operator is alerted", () => {
  let berth: TestDeployer;
  let nats: TestNats | undefined;
  beforeAll(async () => {
    berth = await startDeployer();
  });
  afterAll(async () => {
    await berth?.stop();
    await nats?.stop();
  });

  const scrape = scraper(async () => (await fetch(`http://127.0.0.1:${berth.port}/metrics`)).text());

  test("that events wait, while NATS is away", async () => {
    const before = await scrape.untilZero("berth_outbox_oldest_seconds");
    await berth.nats.stop();
    await berth.environment();
    const during = await scrape.aging("berth_outbox_oldest_seconds");
    nats = await berth.nats.restart();
    const after = await scrape.untilZero("berth_outbox_oldest_seconds");
    await expectAlert("BerthEventsWaiting", { before, during, after });
  });

  test("that builds wait, while others take all slots", async () => {
    const go = newFile(berth, "go");
    const slow = await archiveWith(waitFor(go, newFile(berth, "pid")));
    const before = await scrape.untilZero("berth_builds_waiting");
    const { catalog, environment, deployArchive, until } = await createWebService(berth.port);
    const build = async (name: string) => {
      await catalog.createService({ ...environment, name, type: "web" });
      await deployArchive(environment.at(name), slow);
    };
    for (const name of ["one", "two"]) {
      await build(name);
      await until(environment.at(name), 1, "building");
    }
    await build("three");
    const own = await scrape.until("berth_builds_waiting", (count) => count === 1);
    expect(metricIn(own, "berth_builds_oldest_seconds")).toBe(0);
    const other = await createWebService(berth.port);
    await other.deployArchive(other.path, slow);
    const during = await scrape.aging("berth_builds_oldest_seconds");
    await writeFile(go, "");
    const after = await scrape.untilZero("berth_builds_waiting");
    await expectAlert("BerthBuildsWaiting", { before, during, after });
  });

  test("that services are due, and no deployer can take them", async () => {
    const { id } = await createWebService(berth.port);
    const before = await scrape.untilZero("berth_services_overdue_seconds");
    await berth.pool.query("alter table work add constraint untaken check (lease_owner is null) not valid");
    await berth.pool.query("update work set next_at = now() where service_id = $1", [id]);
    const during = await scrape.aging("berth_services_overdue_seconds");
    await berth.pool.query("alter table work drop constraint untaken");
    const after = await scrape.untilZero("berth_services_overdue_seconds");
    await expectAlert("BerthServicesOverdue", { before, during, after });
  });

  test("of a task by metrics that each process has of each that it does", async () => {
    const done = Object.values(tasks).filter(({ where }) => !where?.includes("on a cluster"));
    await eventually("each that runs at once has ended well", async () => {
      const text = await (await fetch(`http://127.0.0.1:${berth.port}/metrics`)).text();
      const listed = (what: string) =>
        new Set(
          [...text.matchAll(RegExp(`^berth_task_${what}_seconds{task="([^"]+)`, "gm"))].map((one) => one[1]),
        );
      expect([...listed("period")]).toEqual(expect.arrayContaining(done.map(({ name }) => name)));
      const well = listed("succeeded_timestamp");
      return done.every(({ name, atOnce }) => !atOnce || well.has(name)) && well.has("relay");
    });
  });

  test("that steps of services fail, while variables does not answer", async () => {
    const { path, deployArchive } = await createWebService(berth.port);
    const before = await scrape.until("berth_reconcile_errors_total", () => true);
    berth.variables.setAway(true);
    await deployArchive(path, await archiveOf({ "index.html": "<h1>hello</h1>" }));
    const failed = metricIn(before, "berth_reconcile_errors_total")!;
    const during = await scrape.until("berth_reconcile_errors_total", (count) => count > failed + 1);
    berth.variables.setAway(false);
    await expectAlert("BerthReconcileErrors", { before, during, after: during });
  });
});
