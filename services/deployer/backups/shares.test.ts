import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startLocalEngine } from "../engine/local.ts";
import { BackupRefusal } from "../terms/backup-refusal.ts";
import { startDeployer, type TestDeployer } from "../testing/testing.ts";
import { addonWithBackups } from "./testing.ts";

/** The account whose backups last until they are interrupted. */
const greedy = newId("acc");
/** Of its backups: those that were begun, and how many are under way. */
const begun = new Set<string>();
let underWay = 0;
let berth: TestDeployer;

beforeAll(async () => {
  berth = await startDeployer({}, async (config, secrets, log) => {
    const engine = await startLocalEngine(config as never, secrets, log);
    const backups: typeof engine.addonServers.backups = {
      ...engine.addonServers.backups,
      unsupported: async () => undefined,
      async make({ accountId, serviceId }, _password, _key, signal) {
        if (accountId !== greedy) throw new BackupRefusal("There is nothing to back up.");
        begun.add(serviceId);
        underWay++;
        await once(signal, "abort").finally(() => underWay--);
        throw new Error("it was interrupted");
      },
    };
    return { ...engine, addonServers: { ...engine.addonServers, backups } };
  });
});
afterAll(() => berth?.stop());

test("backups of one account that last long hold up none of another, and the next begins when one has ended", async () => {
  const addons = await Promise.all(
    Array.from({ length: 7 }, () => addonWithBackups(berth, "postgres", greedy)),
  );
  for (const { backups, path } of addons) await backups.createBackup(path);
  await eventually("some are under way", async () => underWay === 5);
  const other = await addonWithBackups(berth, "postgres");
  expect((await other.backUp()).failure).toBe("There is nothing to back up.");
  expect(underWay).toBe(5);
  for (const { catalog, path } of addons.filter(({ id }) => begun.has(id)).slice(0, 2))
    await catalog.deleteService({ ...path, confirmImpact: true });
  await eventually("the next ones begin", async () => begun.size === 7);
});
