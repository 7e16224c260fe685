import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs, archiveOf, startTestPlatform, type TestPlatform, visit } from "../testing/testing.ts";
import {
  collectEvents,
  type DeployerProcess,
  deployerProcess,
  everyDeploymentEnds,
  holdCommits,
  PATIENT_DATABASE,
  runningPlaces,
} from "../testing/testing-process.ts";

let platform: TestPlatform;
let deployer: DeployerProcess;
let events: ReturnType<typeof collectEvents>;

beforeAll(async () => {
  platform = await startTestPlatform();
  deployer = deployerProcess(platform, PATIENT_DATABASE);
  events = collectEvents(platform);
});
afterAll(async () => {
  // Told to go, it takes the apps along.
  if (deployer) await ready().then(() => deployer.end("SIGTERM"));
  await events?.stop();
  await platform?.stop();
});

/** Each test goes on with the process that the one before it left. */
const ready = async () => void (deployer.runs() || (await deployer.run()));

/** An app whose build lasts until the file is there. */
const app = (edition: string, file = platform.dataDir) =>
  archiveOf({
    "package.json": JSON.stringify({
      name: "app",
      scripts: { build: `while [ ! -e ${file} ]; do sleep 0.02; done`, start: "node server.js" },
    }),
    "server.js": `require('node:http').createServer((q, r) => r.end('${edition} ' + process.pid)).listen(process.env.PORT)`,
  });

async function webService() {
  const acting = actAs(platform.port, newId("acc"));
  const environment = await acting.environment();
  const made = { ...environment, name: "web", type: "web", config: { minReadySeconds: 0 } };
  const { id } = await acting.catalog.createService(made);
  return { ...acting, environment, id, path: environment.at("web") };
}

/** The processes of a service that the runtime has noted on disk. */
const onRecord = (id: string) =>
  readFile(join(platform.dataDir, "runtime/services", id, "state.json"), "utf8").then(
    (text) => (JSON.parse(text) as { instances: { name: string }[] }).instances.map(({ name }) => name),
    () => [],
  );

type Web = Awaited<ReturnType<typeof webService>>;

const runs = ({ service, path }: Web, edition: string) =>
  eventually(`${edition} runs`, async () => {
    const { status, url } = await service(path);
    if (status !== "running") return false;
    const answer = await visit(url!);
    return answer.text.startsWith(`${edition} `) && answer.text;
  });

/**
 * The states a deployment goes through, by the change that makes each last. Detecting the runtime is mostly too
 * short to be written.
 */
const moves: [string, "insert" | "update", string, string][] = [
  ["is accepted", "insert", "deployments", "true"],
  ["begins to build", "update", "deployments", "new.status = 'building' and old.status = 'queued'"],
  ["fetches the source", "update", "deployments", "new.build_stage = 'Fetching source'"],
  ["builds", "update", "deployments", "new.build_stage = 'Building image'"],
  ["is built", "update", "deployments", "new.status = 'built' and old.status = 'building'"],
  [
    "is about to be applied",
    "update",
    "deployments",
    "old.apply_started_at is null and new.apply_started_at is not null",
  ],
  ["is applied", "update", "deployments", "new.status = 'applied' and old.status <> 'applied'"],
  ["is found healthy", "update", "deployments", "new.healthy_at is not null and old.healthy_at is null"],
  ["is counted as usage", "insert", "usage_intervals", "true"],
];

for (const outcome of ["lost", "kept"] as const)
  test.each(moves)(
    `killed when a deployment %s, and the change is ${outcome}: it ends, once`,
    async (move, on, table, when) => {
      await ready();
      const web = await webService();
      const { id, path, deployArchive } = web;
      const held = await holdCommits(platform, on, table, when);
      // A stage that is over by its turn is not written.
      const built = join(platform.dataDir, `built-${id}`);
      const accepting = app("one", move === "builds" ? built : undefined).then((archive) =>
        deployArchive(path, archive),
      );
      const accepted = accepting.then(
        () => true,
        () => false,
      );
      await held.reached();
      await writeFile(built, "");
      const before = await onRecord(id);
      await deployer.end("SIGKILL");
      await held.release(outcome);
      await deployer.run();
      if (!(await accepted) && outcome === "lost") await deployArchive(path, await app("one"));
      await runs(web, "one");
      expect(await everyDeploymentEnds(platform, events.told, id)).toEqual(["applied"]);
      const now = runningPlaces(platform).filter((place) => place.includes(id));
      expect(now).toHaveLength(1);
      // What ran, and was on record, is not started a second time.
      for (const name of before) expect(now[0]).toContain(name);
      await eventually("usage was told once", async () =>
        events.told.some((one) => one.kind === "UsageStarted" && one.serviceId === id),
      );
      expect(events.told.filter((one) => one.serviceId === id && one.intervalId)).toHaveLength(1);
    },
  );

test.each(["lost", "kept"] as const)(
  "killed when a deployment supersedes one, and the change is %s: one of them runs, and the other's end is told",
  async (outcome) => {
    await ready();
    const web = await webService();
    const { id, path, deployArchive } = web;
    const open = platform.variables.hold();
    await deployArchive(path, await app("one"));
    const held = await holdCommits(platform, "update", "deployments", "new.status = 'superseded'");
    const second = app("two").then((archive) => deployArchive(path, archive));
    second.catch(() => {});
    await held.reached();
    await deployer.end("SIGKILL");
    await held.release(outcome);
    open();
    await deployer.run();
    await runs(web, outcome === "kept" ? "two" : "one");
    const ends = outcome === "kept" ? ["superseded", "applied"] : ["applied"];
    expect(await everyDeploymentEnds(platform, events.told, id)).toEqual(ends);
  },
);

test.each(["lost", "kept"] as const)(
  "killed when a rollback is applied, and the change is %s: the earlier version runs, started once",
  async (outcome) => {
    await ready();
    const web = await webService();
    const { id, path, deployArchive, deployments } = web;
    for (const edition of ["one", "two"]) {
      const { version } = await deployArchive(path, await app(edition));
      await eventually(
        "it is live",
        async () => (await deployments.getDeployment({ ...path, version })).healthyAt,
      );
    }
    const held = await holdCommits(
      platform,
      "update",
      "deployments",
      "new.status = 'applied' and new.version = 3",
    );
    await deployments.rollback({ ...path, version: 1 });
    await held.reached();
    await deployer.end("SIGKILL");
    await held.release(outcome);
    await deployer.run();
    await runs(web, "one");
    expect(await everyDeploymentEnds(platform, events.told, id)).toEqual(["applied", "applied", "applied"]);
    await eventually(
      "the one before it has ended",
      async () => runningPlaces(platform).filter((place) => place.includes(id)).length === 1,
    );
  },
);

test.each(["lost", "kept"] as const)(
  "killed when a restart is asked for, and the change is %s: it is rolled as often as was asked",
  async (outcome) => {
    await ready();
    const web = await webService();
    const { id, path, catalog, deployArchive } = web;
    await deployArchive(path, await app("one"));
    const before = await runs(web, "one");
    const held = await holdCommits(platform, "update", "services", "new.rolls > old.rolls");
    const asked = catalog.restartService(path).then(
      () => true,
      () => false,
    );
    await held.reached();
    await deployer.end("SIGKILL");
    await held.release(outcome);
    await deployer.run();
    await asked;
    if (outcome === "lost") await catalog.restartService(path);
    await eventually("other processes answer", async () => (await runs(web, "one")) !== before);
    await eventually(
      "the ones before have ended",
      async () => runningPlaces(platform).filter((place) => place.includes(id)).length === 1,
    );
    expect(await everyDeploymentEnds(platform, events.told, id)).toEqual(["applied"]);
  },
);

test.each(["lost", "kept"] as const)(
  "killed when a build is canceled, and the change is %s: it ends once, with all its processes",
  async (outcome) => {
    await ready();
    const web = await webService();
    const { id, path, deployArchive, deployments } = web;
    const { buildId } = await deployArchive(path, await app("one", join(platform.dataDir, "never")));
    await eventually("it builds", async () => {
      const { buildStage } = await deployments.getDeployment({ ...path, version: 1 });
      return buildStage === "Building image";
    });
    const held = await holdCommits(platform, "update", "deployments", "new.status = 'failed'");
    const asked = deployments.cancelDeployment({ ...path, version: 1 });
    asked.catch(() => {});
    await held.reached();
    await deployer.end("SIGKILL");
    await held.release(outcome);
    await deployer.run();
    if (outcome === "lost") await deployments.cancelDeployment({ ...path, version: 1 });
    expect(await everyDeploymentEnds(platform, events.told, id)).toEqual(["failed"]);
    const { errors } = await deployments.getDeployment({ ...path, version: 1 });
    expect(errors.map(({ code }) => code)).toEqual(["canceled"]);
    await eventually("nothing of the build is left", async () => {
      const marked = runningPlaces(platform).some((place) => place.includes(buildId!));
      return !marked && !existsSync(join(platform.dataDir, "artifacts", buildId!));
    });
  },
);

const deletions: [string, "update" | "delete", string][] = [
  ["is marked as being deleted", "update", "new.deleting_at is not null"],
  ["is removed", "delete", "true"],
];
for (const outcome of ["lost", "kept"] as const)
  test.each(deletions)(
    `killed when a service %s, and the change is ${outcome}: nothing of it stays`,
    async (_, on, when) => {
      await ready();
      const web = await webService();
      const { id, path, deployArchive, catalog } = web;
      await deployArchive(path, await app("one"));
      await runs(web, "one");
      const held = await holdCommits(platform, on, "services", when);
      const deleting = catalog.deleteService({ ...path, confirmImpact: true });
      const deleted = deleting.then(
        () => true,
        () => false,
      );
      await held.reached();
      await deployer.end("SIGKILL");
      await held.release(outcome);
      await deployer.run();
      if (!(await deleted) && outcome === "lost")
        await catalog.deleteService({ ...path, confirmImpact: true });
      await eventually("it is gone", async () => {
        const found = await platform.pool.query("select from services where id = $1", [id]);
        return found.rowCount === 0 && !runningPlaces(platform).some((place) => place.includes(id));
      });
      await eventually("its usage has ended, once", async () =>
        events.told.some((one) => one.kind === "UsageStopped" && one.serviceId === id),
      );
      expect(events.told.filter((one) => one.serviceId === id && one.intervalId)).toHaveLength(2);
    },
  );

const types = inject("redisProgram") ? ["postgres", "redis"] : ["postgres"];
const addonMoves: [string, string][] = [
  ["is given its password", "old.addon_secret is null and new.addon_secret is not null"],
  ["is ready", "new.addon_state = 'ready' and old.addon_state <> 'ready'"],
  ["has a new password", "old.addon_next_secret is not null and new.addon_next_secret is null"],
];
for (const outcome of ["lost", "kept"] as const)
  test.each(addonMoves)(
    `killed when an addon %s, and the change is ${outcome}: it works, made once`,
    async (_, when) => {
      for (const type of types) {
        await ready();
        const acting = actAs(platform.port, newId("acc"));
        const environment = await acting.environment();
        const path = environment.at("store");
        const rotation = when.includes("next");
        const held = rotation ? undefined : await holdCommits(platform, "update", "services", when);
        const { id } = await acting.catalog.createService({ ...environment, name: "store", type });
        if (rotation) await acting.untilService(path, "running");
        const rotating = rotation ? await holdCommits(platform, "update", "services", when) : held!;
        if (rotation) await acting.catalog.rotateCredentials(path);
        await rotating.reached();
        await deployer.end("SIGKILL");
        await rotating.release(outcome);
        await deployer.run();
        await acting.untilService(path, "running");
        if (rotation)
          await eventually("it is rotated", async () => (await acting.service(path)).credentialsRotatedAt);
        const { rows } = await platform.pool.query<{ revision: number; next: Buffer | null }>(
          "select addon_revision as revision, addon_next_secret as next from services where id = $1",
          [id],
        );
        expect(rows).toEqual([{ revision: rotation ? 2 : 1, next: null }]);
        const servers = runningPlaces(platform).filter((place) => place.includes(id));
        expect(servers).toHaveLength(type === "redis" ? 1 : 0);
        await acting.catalog.deleteService({ ...path, confirmImpact: true });
        await eventually(
          "it is gone",
          async () => !runningPlaces(platform).some((place) => place.includes(id)),
        );
      }
    },
  );
