import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { sample } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs } from "../testing/testing.ts";
import { type KillableDeployer, OUTCOMES, startKillableDeployer, succeeds } from "./testing.ts";

let berth: KillableDeployer;
beforeAll(async () => {
  berth = await startKillableDeployer();
});
afterAll(() => berth?.stop());

const deletions: [string, "update" | "delete", string][] = [
  ["is marked as being deleted", "update", "new.deleting_at is not null"],
  ["is removed", "delete", "true"],
];
const everyOutcome = <T>(moves: T[]) =>
  OUTCOMES.flatMap((outcome) => moves.map((move) => ({ outcome, move })));

test.each(sample("kills at deletions", everyOutcome(deletions), 1))(
  "killed when a service $move.0, and the change is $outcome: nothing of it stays",
  async ({ outcome, move: [, on, when] }) => {
    const web = await berth.webService();
    const { id, path, deployArchive, catalog } = web;
    await deployArchive(path, await berth.app("one"));
    await berth.untilRunning(web, "one");
    const held = await berth.hold(on, "services", when);
    const deleted = succeeds(catalog.deleteService({ ...path, confirmImpact: true }));
    await berth.killAtCommit(held, outcome);
    if (!(await deleted) && outcome === "lost") await catalog.deleteService({ ...path, confirmImpact: true });
    await eventually("it is gone", async () => {
      const found = await berth.platform.pool.query("select from services where id = $1", [id]);
      return found.rowCount === 0 && berth.processesOf(id).length === 0;
    });
    expect(await berth.untilUsage("UsageStopped", id)).toHaveLength(2);
  },
);

const types = inject("redisProgram") ? ["postgres", "redis"] : ["postgres"];
const addonMoves: [string, string][] = [
  ["is given its password", "old.addon_secret is null and new.addon_secret is not null"],
  ["is ready", "new.addon_state = 'ready' and old.addon_state <> 'ready'"],
  ["has a new password", "old.addon_next_secret is not null and new.addon_next_secret is null"],
];
test.each(sample("kills at moves of an addon", everyOutcome(addonMoves), 2))(
  "killed when an addon $move.0, and the change is $outcome: it works, made once",
  async ({ outcome, move: [, when] }) => {
    for (const type of types) {
      await berth.ready();
      const acting = actAs(berth.platform.port, newId("acc"));
      const environment = await acting.environment();
      const path = environment.at("store");
      const rotation = when.includes("next");
      const create = () => acting.catalog.createService({ ...environment, name: "store", type });
      if (rotation) {
        await create();
        await acting.untilService(path, "running");
      }
      const held = await berth.hold("update", "services", when);
      if (rotation) await acting.catalog.rotateCredentials(path);
      else await create();
      await berth.killAtCommit(held, outcome);
      const { id } = await acting.untilService(path, "running");
      if (rotation)
        await eventually("it is rotated", async () => (await acting.service(path)).credentialsRotatedAt);
      const { rows } = await berth.platform.pool.query<{ revision: number; next: Buffer | null }>(
        "select addon_revision as revision, addon_next_secret as next from services where id = $1",
        [id],
      );
      expect(rows).toEqual([{ revision: rotation ? 2 : 1, next: null }]);
      expect(berth.processesOf(id)).toHaveLength(type === "redis" ? 1 : 0);
      await acting.catalog.deleteService({ ...path, confirmImpact: true });
      await eventually("it is gone", async () => berth.processesOf(id).length === 0);
    }
  },
);
