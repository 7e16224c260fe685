import { existsSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createLog } from "../../../kit/log.ts";
import { metricsText } from "../../../kit/telemetry.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import type { AddonBackups } from "../../addons/port.ts";
import { addonAdmin, command, type PublishedKeys, withDumps, withRedis } from "../../addons/testing.ts";
import { startLocalEngine } from "../../engine/local.ts";
import { startDeployer, type TestDeployer } from "../../testing/testing.ts";
import { addonWithBackups, namesOf } from "../testing.ts";
import { startProving, watchProofs } from "./prove-backups.ts";

const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
let berth: TestDeployer;
let backups: AddonBackups;
beforeAll(async () => {
  berth = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin() }, async (config, secrets, log) => {
    const engine = await startLocalEngine(config as never, secrets, log);
    backups = engine.addonServers.backups;
    return engine;
  });
  watchProofs(berth.pool, true);
});
afterAll(() => berth?.stop());
beforeEach(async () => {
  // An addon that was there last night would get the backup of that night.
  await berth.pool.query("update services set created_at = now(); delete from backups; delete from proofs");
});

/** A deployer that proves backups, in the database of the test's. */
const prover = (own: Partial<AddonBackups> = {}) =>
  startProving({
    pool: berth.pool,
    backups: { ...backups, ...own },
    on: true,
    log,
  });

/** Returns the proof of this night, if it was begun. */
async function proofs() {
  const { rows } = await berth.pool.query<{
    backup: string;
    status: string;
    counted: number;
    failure: string;
  }>(
    "select backup_id as backup, status, counted::int, failure from proofs where night = (now() at time zone 'UTC' - interval '5 hours')::date",
  );
  return rows;
}

const untilEnded = () =>
  eventually("the proof has ended", async () => {
    const [newest] = await proofs();
    return newest && newest.status !== "running" && newest;
  });

/** Does what a deployer does in a night. */
async function pass(own?: Partial<AddonBackups>) {
  const proving = prover(own);
  try {
    return await untilEnded();
  } finally {
    await proving.stop();
  }
}

/** Makes the proofs that there are those of the nights before. */
const nextNight = () => berth.pool.query("update proofs set night = night - 1");

async function metric(name: string): Promise<number> {
  const [, value] = new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, "m").exec(await metricsText()) ?? [];
  return Number(value);
}

withDumps(
  "a backup of a database is restored to the side and read, and nothing of that is left",
  async () => {
    const db = await addonWithBackups(berth, "postgres");
    await db.query("create table notes (id int primary key); insert into notes values (1), (2)");
    await db.query(`create schema "own one"; create table "own one"."Things" (n int references notes)`);
    await db.query(`insert into "own one"."Things" values (1)`);
    await db.query("create materialized view twice as select id * 2 as two from notes");
    const { id, provedAt } = await db.backUp();
    expect(provedAt).toBeUndefined();
    await db.query("insert into notes values (3)");
    expect(await pass()).toEqual({ backup: id, status: "succeeded", counted: 5, failure: null });
    const shown = await db.get(id);
    expect(shown.provedAt).toBeDefined();
    expect(shown.proofFailure).toBeUndefined();
    expect(await db.query("select count(*)::int as n from notes")).toEqual([{ n: 3 }]);
    expect(await namesOf(db.id)).toHaveLength(2);
  },
);

withRedis("a backup of redis is read by a server of its own, and nothing of that is left", async () => {
  const store = await addonWithBackups(berth, "redis");
  const keys = (await store.keys()) as unknown as PublishedKeys;
  await command(keys, ["SET", "first", "1"], ["SET", "second", "2"]);
  const { id } = await store.backUp();
  await command(keys, ["SET", "third", "3"]);
  expect(await pass()).toMatchObject({ backup: id, status: "succeeded", counted: 2 });
  expect(await readdir(join(berth.dataDir, "redis-proofs"))).toEqual([]);
});

withRedis("a damaged backup is found by its proof, which the backup and metrics say", async () => {
  const store = await addonWithBackups(berth, "redis");
  const { id } = await store.backUp();
  const file = join(berth.dataDir, "store", "objects", (await store.objects())[0]!);
  const whole = await readFile(file);
  await writeFile(file, whole.subarray(0, whole.length - 12));
  const failure = "The redis server cannot read this backup, which may be of a newer version.";
  expect(await pass()).toMatchObject({ backup: id, status: "failed", failure });
  const { provedAt, proofFailure, status } = await store.get(id);
  expect({ provedAt, proofFailure, status }).toEqual({
    provedAt: undefined,
    proofFailure: failure,
    status: "succeeded",
  });
  expect(await readdir(join(berth.dataDir, "redis-proofs"))).toEqual([]);
  expect(await metric("berth_addon_backup_proofs_failed")).toBe(1);
  await berth.pool.query("update proofs set started_at = now() - interval '4 days'");
  await berth.pool.query("update services set created_at = now() - interval '3 days' where id = $1", [
    store.id,
  ]);
  const age = await metric("berth_addon_backup_proof_age_seconds");
  expect(Math.round(age / 86_400)).toBe(3);

  await writeFile(file, whole);
  await nextNight();
  expect(await pass()).toMatchObject({ backup: id, status: "succeeded" });
  expect(await store.get(id)).toMatchObject({ provedAt: expect.anything() });
  expect((await store.get(id)).proofFailure).toBeUndefined();
  expect(await metric("berth_addon_backup_proofs_failed")).toBe(0);
  expect(await metric("berth_addon_backup_proof_age_seconds")).toBeLessThan(86_400);
});

withDumps("a dump that is damaged fails its proof with that reason, and leaves nothing", async () => {
  const db = await addonWithBackups(berth, "postgres");
  const { id } = await db.backUp();
  const [object] = await db.objects();
  const file = join(berth.dataDir, "store", "objects", object!);
  const whole = await readFile(file);
  await writeFile(file, whole.subarray(0, whole.length - 100));
  expect(await pass()).toMatchObject({ status: "failed" });
  expect((await db.get(id)).proofFailure).toMatch(/^The backup is damaged, or a part of it is missing\./);
  expect(await namesOf(db.id)).toHaveLength(2);
});

test("of two deployers one proves a backup each night, at first those that were not proved lately", async () => {
  const [one, two] = [await addonWithBackups(berth, "redis"), await addonWithBackups(berth, "redis")];
  for (const { id, accountId } of [one, two])
    await berth.pool.query(
      `insert into backups (id, account_id, service_id, type, trigger, status, object, due_at)
       values ('bkp_' || $1, $2, $1, 'redis', 'manual', 'succeeded', 'backups/' || $1, null)`,
      [id, accountId],
    );
  const proved: string[] = [];
  const prove = async ({ serviceId }: { serviceId: string }) => {
    proved.push(serviceId);
    return { counted: 1 };
  };
  const night = async () => {
    const both = [prover({ prove }), prover({ prove })];
    await untilEnded();
    await Promise.all(both.map((each) => each.stop()));
  };
  await night();
  expect(proved).toHaveLength(1);
  await night();
  expect(proved).toHaveLength(1);
  await nextNight();
  await night();
  expect(proved.toSorted()).toEqual([one.id, two.id].toSorted());
});

test("a backup that is deleted while it is proved ends that, and the night has the proof of another one", async () => {
  const [one, two] = [await addonWithBackups(berth, "redis"), await addonWithBackups(berth, "redis")];
  const insert = ({ id, accountId }: typeof one) =>
    berth.pool.query(
      `insert into backups (id, account_id, service_id, type, trigger, status, object, due_at)
       values ('bkp_' || $1, $2, $1, 'redis', 'manual', 'succeeded', 'backups/' || $1, null)`,
      [id, accountId],
    );
  await insert(one);
  const removed: string[] = [];
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: gone, reject: fail } = Promise.withResolvers<never>();
  gone.catch(() => {});
  const proving = prover({
    prove: async ({ serviceId }) => {
      if (serviceId === two.id) return { counted: 7 };
      begin();
      return gone;
    },
    removeProof: async ({ serviceId }) => void removed.push(serviceId),
  });
  await begun;
  await one.backups.deleteBackup({ ...one.path, backupId: `bkp_${one.id}` });
  await insert(two);
  fail(new Error("the object is gone"));
  expect(await untilEnded()).toMatchObject({ backup: `bkp_${two.id}`, status: "succeeded", counted: 7 });
  await proving.stop();
  expect(removed).toEqual([one.id]);
});

test("none is begun where they are off", async () => {
  const proving = startProving({
    pool: berth.pool,
    backups,
    on: false,
    log,
  });
  await proving.stop();
  expect(await proofs()).toEqual([]);
  expect(existsSync(join(berth.dataDir, "redis-proofs"))).toBe(true);
});
