import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { BackupService } from "../../../proto/gen/berth/deployer/v1/backups_pb.ts";
import { AccountDeletedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { transaction } from "../../kit/postgres/db.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { addonAdmin, command, type PublishedKeys, withDumps, withRedis } from "../addons/testing.ts";
import { startDeployer, type TestDeployer } from "../testing/testing.ts";
import { expireKept } from "./kept-sql.ts";
import { addonWithBackups } from "./testing.ts";

const DAY_MS = 86_400_000;

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({
    ADDON_POSTGRES_URL: await addonAdmin(),
    PLAN_BACKUP_DAYS: '{"team":30,"free":0}',
  });
});
afterAll(() => berth?.stop());

type Addon = Awaited<ReturnType<typeof addonWithBackups>>;

const kept = async ({ backups, accountId }: Addon) => (await backups.listKeptBackups({ accountId })).data;
const files = async (serviceId: string) =>
  (await readdir(join(berth.dataDir, "store", "objects"))).filter((name) => name.includes(serviceId));

/** Deletes an addon, and waits until its rows are gone. */
async function remove(addon: Addon): Promise<void> {
  await addon.catalog.deleteService({ ...addon.path, confirmImpact: true });
  await untilGone(addon);
}

async function untilGone({ id }: Addon): Promise<void> {
  await eventually("the addon is gone", async () => {
    const { rows } = await berth.pool.query("select from services where id = $1", [id]);
    return rows.length === 0;
  });
}

/** What the deployer does each minute. */
const sweep = () => transaction(berth.pool, (tx) => expireKept(tx, 100));

/** Has the time of what is kept of an account be over. */
async function elapse(accountId: string): Promise<void> {
  await berth.pool.query(
    "update backups set kept_until = now() - interval '1 second' where account_id = $1 and kept_until is not null",
    [accountId],
  );
}

withDumps(
  "a deleted postgres addon is brought back by one request, with the data of its newest backup",
  async () => {
    const db = await addonWithBackups(berth, "postgres");
    await db.query("create table notes (id int primary key)");
    const first = await db.backUp();
    await db.query("insert into notes values (1)");
    const newest = await db.backUp();
    await db.query("insert into notes values (2)");

    const { code, message, context } = await refusal(db.catalog.deleteService(db.path));
    expect(code).toBe("impact_confirmation_required");
    expect(message).toContain("The newest backup of each addon that has one is kept until ");
    expect(context).toMatchObject({ impact: { total: 1, keptBackups: 1, keptUntil: expect.any(String) } });
    expect(await kept(db)).toEqual([]);

    await remove(db);
    const [backup, ...others] = await kept(db);
    expect(others).toEqual([]);
    expect(backup).toMatchObject({ id: newest.id, serviceId: db.id, serviceName: "store", type: "postgres" });
    expect(backup).toMatchObject({ environmentName: "production", sizeBytes: newest.sizeBytes });
    const days = (Number(backup!.keptUntil!.seconds) * 1_000 - Date.now()) / DAY_MS;
    expect(Math.round(days)).toBe(7);
    await eventually("the others are removed", async () => (await files(db.id)).length === 1);

    const { url } = await db.backups.downloadKeptBackup({ accountId: db.accountId, backupId: newest.id });
    const dump = Buffer.from(await (await fetch(url)).arrayBuffer());
    expect(dump.subarray(0, 5).toString()).toBe("PGDMP");

    const again = await db.fork({ backup: newest.id });
    expect(await again.untilRestored()).toMatchObject({ status: "succeeded", backup: newest.id });
    expect(await again.query("select * from notes")).toEqual([{ id: 1 }]);
    const older = { ...db.environment, name: "other", type: "postgres", from: { backup: first.id } };
    expect(await refused(db.catalog.createService(older as never))).toBe("404 not_found");
  },
);

withRedis("a kept backup is restored into another addon, and deleted at once by an owner alone", async () => {
  const store = await addonWithBackups(berth, "redis");
  await command((await store.keys()) as unknown as PublishedKeys, ["SET", "first", "1"]);
  const { id } = await store.backUp();
  const { accountId } = store;
  await remove(store);
  const other = await addonWithBackups(berth, "redis", accountId);
  expect(await other.restore(id)).toMatchObject({ status: "succeeded", backup: id });
  await command((await other.keys()) as unknown as PublishedKeys, ["RENAME", "first", "kept"]);

  const at = { accountId, backupId: id };
  await berth.pool.query("update restores set status = 'running', due_at = null where service_id = $1", [
    other.id,
  ]);
  expect(await refused(store.backups.deleteKeptBackup(at))).toBe("409 restore_running");
  await berth.pool.query("update restores set status = 'succeeded' where service_id = $1", [other.id]);
  const editor = clientAs(BackupService, berth.port, { accountId, role: "editor" });
  expect(await refused(editor.deleteKeptBackup(at))).toBe("403 forbidden");
  await store.backups.deleteKeptBackup(at);
  expect(await kept(store)).toEqual([]);
  await eventually("its object is removed", async () => (await files(store.id)).length === 0);
  expect(await refused(store.backups.deleteKeptBackup(at))).toBe("404 not_found");
});

withRedis("nobody else sees, saves, deletes or restores what an account keeps", async () => {
  const store = await addonWithBackups(berth, "redis");
  const { id } = await store.backUp();
  await remove(store);
  const stranger = await addonWithBackups(berth, "redis");
  const at = { accountId: stranger.accountId, backupId: id };
  expect(await kept(stranger)).toEqual([]);
  expect(await refused(stranger.backups.getKeptBackup(at))).toBe("404 not_found");
  expect(await refused(stranger.backups.downloadKeptBackup(at))).toBe("404 not_found");
  expect(await refused(stranger.backups.deleteKeptBackup(at))).toBe("404 not_found");
  const restore = { ...stranger.path, backup: id, confirmImpact: true };
  expect(await refused(stranger.backups.restoreBackup(restore))).toBe("404 not_found");
  const from = { ...stranger.environment, name: "taken", type: "redis", from: { backup: id } };
  expect(await refused(stranger.catalog.createService(from as never))).toBe("404 not_found");
  const nothing = { ...store.environment, name: "nothing", type: "redis", from: {} };
  expect(await refused(store.catalog.createService(nothing as never))).toBe("422 validation_failed required");
  expect((await kept(store)).map((one) => one.id)).toEqual([id]);
});

withRedis(
  "a project's deletion keeps the newest backup of each of its addons, until the time is over",
  async () => {
    const store = await addonWithBackups(berth, "redis");
    const { accountId } = store;
    await store.backUp();
    const { id } = await store.backUp();
    await store.catalog.deleteProject({ ...store.environment, confirmImpact: true });
    await untilGone(store);
    expect(await kept(store)).toMatchObject([{ id, serviceName: "store", environmentName: "production" }]);

    // While one is being restored, it outlives its time.
    const other = await addonWithBackups(berth, "redis", accountId);
    await berth.pool.query("insert into restores (service_id, backup_id, due_at) values ($1, $2, null)", [
      other.id,
      id,
    ]);
    await elapse(accountId);
    expect(await kept(other)).toEqual([]);
    const late = { ...other.environment, name: "late", type: "redis", from: { backup: id } };
    expect(await refused(other.catalog.createService(late as never))).toBe("404 not_found");
    await sweep();
    const status = async () => {
      const { rows } = await berth.pool.query(
        "select deleting_at is null as stays from backups where id = $1",
        [id],
      );
      return rows;
    };
    expect(await status()).toEqual([{ stays: true }]);
    await berth.pool.query("update restores set status = 'failed' where service_id = $1", [other.id]);
    await eventually("its object is removed", async () => {
      await sweep();
      return (await files(store.id)).length === 0;
    });
  },
);

withRedis("a plan says for how many days: with none, all backups go with the addon", async () => {
  for (const [tier, days] of [
    ["team", 30],
    ["free", 0],
  ] as const) {
    const accountId = newId("acc");
    await berth.pool.query("insert into accounts (id, tier, tier_revision) values ($1, $2, 1)", [
      accountId,
      tier,
    ]);
    const store = await addonWithBackups(berth, "redis", accountId);
    await store.backUp();
    const { message } = await refusal(store.catalog.deleteService(store.path));
    expect(message.includes("is kept until")).toBe(days > 0);
    await remove(store);
    const found = await kept(store);
    expect(found).toHaveLength(days > 0 ? 1 : 0);
    for (const { keptUntil } of found)
      expect(Math.round((Number(keptUntil!.seconds) * 1_000 - Date.now()) / DAY_MS)).toBe(days);
    if (days === 0) await eventually("nothing is left", async () => (await files(store.id)).length === 0);
  }
});

withRedis("a deleted account keeps nothing: neither what it kept before, nor what it had", async () => {
  const gone = await addonWithBackups(berth, "redis");
  const { accountId } = gone;
  await gone.backUp();
  await remove(gone);
  const still = await addonWithBackups(berth, "redis", accountId);
  await still.backUp();
  expect(await kept(gone)).toHaveLength(1);
  await berth.variables.publish(AccountDeletedSchema, accountId, { accountId, byUserId: newId("usr") });
  await untilGone(still);
  await eventually("nothing is left", async () => {
    const { rows } = await berth.pool.query("select from backups where account_id = $1", [accountId]);
    return rows.length === 0 && (await files(gone.id)).length + (await files(still.id)).length === 0;
  });
});

withRedis("an account keeps at most 100, and lists them in pages, newest first", async () => {
  const store = await addonWithBackups(berth, "redis");
  const { accountId } = store;
  await berth.pool.query(
    `insert into backups (id, account_id, service_id, type, trigger, status, size_bytes, object, due_at, kept_until,
       service_name, environment_name, project_name)
     select 'bkp_' || lpad(n::text, 26, '0'), $1, 'svc_' || n, 'redis', 'nightly', 'succeeded', 1, 'backups/x/' || n, null,
       now() + make_interval(hours => n), 'cache', 'production', 'shop' from generate_series(1, 100) n`,
    [accountId],
  );
  const { id } = await store.backUp();
  await remove(store);
  const first = await store.backups.listKeptBackups({ accountId, limit: 60 });
  const more = await store.backups.listKeptBackups({ accountId, limit: 60, cursor: first.page!.nextCursor });
  const ids = [...first.data, ...more.data].map((one) => one.id);
  expect(ids).toHaveLength(100);
  expect(ids[0]).toBe(id);
  expect(ids).toEqual(ids.toSorted().reverse());
  expect(ids).not.toContain(`bkp_${"1".padStart(26, "0")}`);
});
