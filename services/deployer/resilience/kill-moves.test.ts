import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sample } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { type KillableDeployer, OUTCOMES, startKillableDeployer, succeeds } from "./testing.ts";

let berth: KillableDeployer;
beforeAll(async () => {
  berth = await startKillableDeployer();
});
afterAll(() => berth?.stop());

/** The processes of a service that the runtime has recorded on disk. */
const recorded = (id: string) =>
  readFile(join(berth.platform.dataDir, "runtime/services", id, "state.json"), "utf8").then(
    (text) => (JSON.parse(text) as { instances: { name: string }[] }).instances.map(({ name }) => name),
    () => [],
  );

/**
 * The states a deployment goes through, by the change that makes each durable. Detecting the runtime is mostly too
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

const killed = OUTCOMES.flatMap((outcome) => moves.map(([move, ...at]) => ({ move, outcome, at })));

test.each(sample("kills at moves of a deployment", killed, 4))(
  "killed when a deployment $move, and the change is $outcome: it ends, once",
  async ({ move, outcome, at: [on, table, when] }) => {
    const web = await berth.webService();
    const { id, path, deployArchive } = web;
    const held = await berth.hold(on, table, when);
    // A stage that is over by its turn is not written.
    const built = join(berth.platform.dataDir, `built-${id}`);
    const archive = await berth.app("one", move === "builds" ? built : undefined);
    const accepted = succeeds(deployArchive(path, archive));
    await held.reached();
    await writeFile(built, "");
    const before = await recorded(id);
    await berth.killAtCommit(held, outcome);
    if (!(await accepted) && outcome === "lost") await deployArchive(path, await berth.app("one"));
    await berth.untilRunning(web, "one");
    expect(await berth.everyDeploymentEnds(id)).toEqual(["applied"]);
    const now = berth.processesOf(id);
    expect(now).toHaveLength(1);
    // A process that runs and is recorded is not started a second time.
    for (const name of before) expect(now[0]).toContain(name);
    expect(await berth.untilUsage("UsageStarted", id)).toHaveLength(1);
  },
);

test.each(sample("kills at superseding", OUTCOMES, 1))(
  "killed when a deployment supersedes one, and the change is %s: one of them runs, and each end has its event",
  async (outcome) => {
    const web = await berth.webService();
    const { id, path, deployArchive } = web;
    const open = berth.platform.variables.hold();
    await deployArchive(path, await berth.app("one"));
    const held = await berth.hold("update", "deployments", "new.status = 'superseded'");
    const second = berth.app("two").then((archive) => deployArchive(path, archive));
    second.catch(() => {});
    await berth.killAtCommit(held, outcome, open);
    await berth.untilRunning(web, outcome === "kept" ? "two" : "one");
    const ends = outcome === "kept" ? ["superseded", "applied"] : ["applied"];
    expect(await berth.everyDeploymentEnds(id)).toEqual(ends);
  },
);

test.each(sample("kills at rolling back", OUTCOMES, 1))(
  "killed when a rollback is applied, and the change is %s: the earlier version runs, started once",
  async (outcome) => {
    const web = await berth.webService();
    const { id, path, deployArchive, deployments } = web;
    for (const edition of ["one", "two"]) {
      const { version } = await deployArchive(path, await berth.app(edition));
      await eventually(
        "it is live",
        async () => (await deployments.getDeployment({ ...path, version })).healthyAt,
      );
    }
    const held = await berth.hold("update", "deployments", "new.status = 'applied' and new.version = 3");
    await deployments.rollback({ ...path, version: 1 });
    await berth.killAtCommit(held, outcome);
    await berth.untilRunning(web, "one");
    expect(await berth.everyDeploymentEnds(id)).toEqual(["applied", "applied", "applied"]);
    await eventually("the one before it has ended", async () => berth.processesOf(id).length === 1);
  },
);

test.each(sample("kills at restarting", OUTCOMES, 1))(
  "killed when a restart is requested, and the change is %s: it is rolled as often as requested",
  async (outcome) => {
    const web = await berth.webService();
    const { id, path, catalog, deployArchive } = web;
    await deployArchive(path, await berth.app("one"));
    const before = await berth.untilRunning(web, "one");
    const held = await berth.hold("update", "services", "new.rolls > old.rolls");
    const restarted = succeeds(catalog.restartService(path));
    await berth.killAtCommit(held, outcome);
    await restarted;
    if (outcome === "lost") await catalog.restartService(path);
    await eventually("other processes answer", async () => (await berth.untilRunning(web, "one")) !== before);
    await eventually("the ones before have ended", async () => berth.processesOf(id).length === 1);
    expect(await berth.everyDeploymentEnds(id)).toEqual(["applied"]);
  },
);

test.each(sample("kills at canceling", OUTCOMES, 1))(
  "killed when a build is canceled, and the change is %s: it ends once, with all its processes",
  async (outcome) => {
    const { id, path, deployArchive, deployments } = await berth.webService();
    const { dataDir } = berth.platform;
    const { buildId } = await deployArchive(path, await berth.app("one", join(dataDir, "never")));
    await eventually("it builds", async () => {
      const { buildStage } = await deployments.getDeployment({ ...path, version: 1 });
      return buildStage === "Building image";
    });
    const held = await berth.hold("update", "deployments", "new.status = 'failed'");
    const canceled = deployments.cancelDeployment({ ...path, version: 1 });
    canceled.catch(() => {});
    await berth.killAtCommit(held, outcome);
    if (outcome === "lost") await deployments.cancelDeployment({ ...path, version: 1 });
    expect(await berth.everyDeploymentEnds(id)).toEqual(["failed"]);
    const { errors } = await deployments.getDeployment({ ...path, version: 1 });
    expect(errors.map(({ code }) => code)).toEqual(["canceled"]);
    await eventually("nothing of the build is left", async () => {
      const folder = join(dataDir, "artifacts", buildId!);
      return berth.processesOf(buildId!).length === 0 && !existsSync(folder);
    });
  },
);
