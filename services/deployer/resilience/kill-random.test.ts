import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { createRandom } from "../../kit/testing/random.ts";
import { sampleSize } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import {
  actAs,
  archiveOf,
  exampleApp,
  FREE_PLAN,
  startTestPlatform,
  type TestPlatform,
  visit,
} from "../testing/testing.ts";
import {
  collectEvents,
  type DeployerProcess,
  deployerProcess,
  everyDeploymentEnds,
  runningFolders,
} from "../testing/testing-process.ts";

const ROUNDS = sampleSize("kills at random moments", 20, 5);
/** Longer than all that a round asks for takes, from the first request until nothing is left to do. */
const ROUND_MS = 2_500;

let platform: TestPlatform;
let deployer: DeployerProcess;
let events: ReturnType<typeof collectEvents>;

beforeAll(async () => {
  platform = await startTestPlatform();
  deployer = deployerProcess({ ...platform, env: { ...platform.env, ...FREE_PLAN } });
  events = collectEvents(platform);
});
afterAll(async () => {
  await deployer?.end("SIGKILL");
  await events?.stop();
  await platform?.stop();
});

const names = (folder: string) =>
  readdir(join(platform.dataDir, folder)).then(
    (found) => found.sort(),
    () => [],
  );

/** Builds of what runs or can be rolled back to, on the free plan. */
async function keptBuilds(): Promise<string[]> {
  const { rows } = await platform.pool.query<{ buildId: string }>(
    `select distinct d.artifact as "buildId" from deployments d join services s on s.id = d.service_id
     where d.status = 'applied' and d.artifact is not null and (d.version = s.live_version or d.healthy_at is not null
       and (select count(*) from deployments n where n.service_id = d.service_id
         and n.healthy_at is not null and n.version > d.version) < 5)`,
  );
  return rows.map((row) => row.buildId.replace(/^.*[:/]/, "")).sort();
}

test(`killed at ${ROUNDS} random moments of all that it does: everything ends, once, and nothing is left over`, {
  timeout: 600_000,
}, async () => {
  const random = createRandom(inject("seed"));
  await deployer.run();
  const acting = actAs(platform.port, newId("acc"));
  const { accountId, catalog, deployments } = acting;
  const environment = await acting.environment();
  const base = { minReadySeconds: 0 };
  const made = ["one", "two"].map((name) =>
    catalog.createService({ ...environment, name, type: "web", config: base }),
  );
  const webs = (await Promise.all(made)).map(({ id, name }) => ({ id, path: environment.at(name) }));
  const files = await exampleApp("node");
  const addons = inject("redisProgram") ? ["redis", "postgres"] : ["postgres"];
  const versions = new Map(webs.map(({ id }) => [id, 0]));

  /** What users do in a round: deploy, roll back, change variables, make, rotate and delete addons. */
  async function act(round: number): Promise<void> {
    for (const { id, path } of webs) {
      const { liveVersion } = await acting.service(path);
      const { data } = await deployments.listDeployments(path);
      // A newer one may have become live since its number was read; an older one never does again.
      const earlier = data.find((one) => one.healthyAt !== undefined && one.version < (liveVersion ?? 0));
      const target = round % 4 === 3 && earlier;
      if (target) await deployments.rollback({ ...path, version: target.version });
      else await acting.deployArchive(path, await archiveOf({ ...files, round: String(round) }));
      versions.set(id, versions.get(id)! + 1);
      platform.variables.set(id, [{ name: "GREETING", value: `round ${round}` }]);
      await platform.variables.changed(accountId, "service", id);
    }
    const type = addons[(round >> 1) % addons.length]!;
    if (round % 2 === 0) await catalog.createService({ ...environment, name: `store-${round}`, type });
    else if (round % 3 === 0)
      await catalog.rotateCredentials(environment.at(`store-${round - 1}`)).catch(() => {});
    else await catalog.deleteService({ ...environment.at(`store-${round - 1}`), confirmImpact: true });
  }

  for (let round = 0; round < ROUNDS; round++) {
    await act(round);
    await delay(random.between(0, ROUND_MS)); // the random moment
    await deployer.end("SIGKILL");
    await deployer.run();
  }

  for (const { id, path } of webs) {
    const { url } = await eventually("it runs its newest version", async () => {
      const found = await acting.service(path);
      return found.status === "running" && found.liveVersion === versions.get(id) && found;
    });
    await eventually("with its newest variables", async () =>
      (await visit(url!)).text.startsWith(`round ${ROUNDS - 1}`),
    );
    const ends = await everyDeploymentEnds(platform, events.received, id);
    expect(ends).toHaveLength(ROUNDS);
    expect(ends.filter((end) => end !== "applied" && end !== "superseded")).toEqual([]);
    const { data } = await deployments.listDeployments({ ...path, limit: 100 });
    expect(data.map(({ version }) => version)).toEqual(ends.map((_, index) => ROUNDS - index));
  }
  const { data: services } = await catalog.listServices({ ...environment, limit: 100 });
  const stores = services.filter(({ name }) => name.startsWith("store-"));
  for (const { name } of stores) await acting.untilService(environment.at(name), "running");
  await eventually("one process for each that runs, and no other", async () => {
    const running = runningFolders(platform).map((folder) =>
      folder.split("/").find((part) => part.startsWith("svc_")),
    );
    const expected = [...webs, ...stores.filter(({ type }) => type === "redis")].map(({ id }) => id);
    return isDeepStrictEqual(running.sort(), expected.sort());
  });
  await eventually("only what runs or can be rolled back to is kept", async () =>
    isDeepStrictEqual(await names("artifacts"), await keptBuilds()),
  );

  await catalog.deleteProject({ ...environment, confirmImpact: true });
  await eventually("nothing is left of a project that is deleted", async () => {
    const { rowCount } = await platform.pool.query(
      "select from projects union all select from usage_intervals",
    );
    const folders = ["artifacts", "artifacts-cache", "runtime/services", "store/objects", "store/incoming"];
    const left = (await Promise.all([...folders, "redis"].map(names))).flat();
    return rowCount === 0 && runningFolders(platform).length === 0 && isDeepStrictEqual(left, ["alive"]);
  });
  const usage = (kind: string) =>
    events.received.filter((one) => one.kind === kind).map(({ intervalId }) => intervalId);
  await eventually("the end of all usage has its event", async () =>
    isDeepStrictEqual(usage("UsageStarted").sort(), usage("UsageStopped").sort()),
  );
  expect(new Set(usage("UsageStarted")).size).toBe(usage("UsageStarted").length);
});
