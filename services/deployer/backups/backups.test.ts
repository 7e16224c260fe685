import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { BackupService } from "../../../proto/gen/berth/deployer/v1/backups_pb.ts";
import { createLog } from "../../kit/log.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { addonAdmin, command, type PublishedKeys, withDumps, withRedis } from "../addons/testing.ts";
import { startLocalEngine } from "../engine/local.ts";
import { createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { startNightly } from "./start-nightly.ts";
import { addonWithBackups, namesOf } from "./testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin(), ADDON_BACKUPS_KEPT: "2" });
});
afterAll(() => berth?.stop());

withDumps(
  "a restored postgres addon has the rows of its backup, and none that were written later",
  async () => {
    const db = await addonWithBackups(berth, "postgres");
    await db.query("create table notes (id int primary key, text text)");
    await db.query("insert into notes values (1, 'first')");
    const backup = await db.backUp();
    expect(backup).toMatchObject({ status: "succeeded", trigger: "manual" });
    expect(backup.sizeBytes).toBeGreaterThan(0);
    expect(backup.version).toMatch(/^\d+\.\d+/);
    await db.query("insert into notes values (2, 'second')");
    await db.query("create table later (note int references notes)");

    const restoring = db.backups.restoreBackup({ ...db.path, backup: backup.id });
    const { code, message, context } = await refusal(restoring);
    expect(code).toBe("impact_confirmation_required");
    expect(message).toContain("what was written since then is lost");
    expect(context).toMatchObject({ impact: { total: 1, services: [{ id: db.id, name: "store" }] } });
    expect(await db.restore(backup.id)).toMatchObject({ status: "succeeded", backup: backup.id });
    expect(await db.query("select * from notes")).toEqual([{ id: 1, text: "first" }]);
    expect(await db.query("select to_regclass('later') as later")).toEqual([{ later: null }]);
    await db.query("insert into notes values (3, 'third')");

    const service = await db.catalog.getService(db.path);
    expect(service.capabilities).toMatchObject({ backups: true });
    expect(service.backups?.latestAt).toEqual(backup.startedAt);
    const [role, database] = [`addon_${db.id.slice(4)}`, `addon_${db.id.slice(4)}`];
    expect(await namesOf(db.id)).toEqual([database, role]);
  },
);

withRedis(
  "a restored redis addon has the keys of its backup, also after its server is started again",
  async () => {
    const store = await addonWithBackups(berth, "redis");
    const send = async (...commands: string[][]) =>
      command((await store.keys()) as unknown as PublishedKeys, ...commands);
    await send(["SET", "first", "1"]);
    const backup = await store.backUp();
    expect(backup).toMatchObject({ status: "succeeded" });
    expect(backup.version).toMatch(/^\d+\.\d+/);
    await send(["SET", "second", "2"]);
    expect(await store.restore(backup.id)).toMatchObject({ status: "succeeded" });
    // RENAME is refused for a key that is not there.
    await send(["RENAME", "first", "kept"]);
    await expect(send(["RENAME", "second", "lost"])).rejects.toThrow("refused");
    const record = join(berth.dataDir, "redis", store.id, "state.json");
    const { pid } = JSON.parse(await readFile(record, "utf8"));
    process.kill(pid, "SIGKILL");
    const again = () =>
      send(["RENAME", "kept", "still"]).then(
        () => true,
        () => false,
      );
    await eventually("it has the key again", again);
  },
);

withDumps("an addon gets the data of another one of the account from its backup, as its own", async () => {
  const production = await addonWithBackups(berth, "postgres");
  await production.query("create table notes (id int primary key); grant select on notes to public");
  await production.query("create schema own; create table own.things (n int); insert into notes values (1)");
  const { id } = await production.backUp();
  const staging = await addonWithBackups(berth, "postgres", production.accountId);
  await staging.query("create table tried (n int)");
  const asking = staging.backups.restoreBackup({ ...staging.path, backup: id });
  expect((await refusal(asking)).message).toContain("by that of another addon of");
  expect(await staging.restore(id)).toMatchObject({ status: "succeeded", backup: id });
  await staging.query("insert into notes values (2); insert into own.things values (3); drop table notes");
  expect(await staging.query("select to_regclass('tried') as tried")).toEqual([{ tried: null }]);
  expect(await production.query("select * from notes")).toEqual([{ id: 1 }]);
  expect((await staging.backups.listBackups(staging.path)).data).toEqual([]);
});

withDumps("an addon is forked into another environment, with the data of its newest backup", async () => {
  const production = await addonWithBackups(berth, "postgres");
  await production.query("create table notes (id int primary key); insert into notes values (1)");
  await production.backUp();
  await production.query("insert into notes values (2)");
  const { id } = await production.backUp();
  await production.query("insert into notes values (3)");
  const fork = await production.fork({ service: production.id });
  expect(await fork.untilRestored()).toMatchObject({ status: "succeeded", backup: id });
  expect(await fork.query("select * from notes")).toEqual([{ id: 1 }, { id: 2 }]);
  await fork.query("insert into notes values (9); alter table notes add text text");
  expect(await production.query("select count(*)::int as n from notes")).toEqual([{ n: 3 }]);
  expect((await fork.keys()).PASSWORD).not.toBe((await production.keys()).PASSWORD);
  expect((await production.backups.listBackups(production.path)).data).toHaveLength(2);
});

withRedis(
  "what is forked without a backup is backed up first, and staged until its environment is applied",
  async () => {
    const store = await addonWithBackups(berth, "redis");
    await command((await store.keys()) as unknown as PublishedKeys, ["SET", "first", "1"]);
    const fork = await store.fork({ service: store.id }, { staged: true });
    const [backup] = (await store.backups.listBackups(store.path)).data;
    expect(backup).toMatchObject({ trigger: "manual", requestedBy: expect.any(String) });
    await store.untilEnded(backup!.id);
    expect((await fork.catalog.getService(fork.path)).backups?.restore).toMatchObject({
      status: "running",
      backup: backup!.id,
    });
    await fork.catalog.applyEnvironment(fork.environment);
    expect(await fork.untilRestored()).toMatchObject({ status: "succeeded" });
    await command((await fork.keys()) as unknown as PublishedKeys, ["RENAME", "first", "kept"]);
  },
);

withDumps("a fork whose backup fails says so, and has an addon without data", async () => {
  const db = await addonWithBackups(berth, "postgres");
  const url = new URL(inject("postgresAdminUrl"));
  url.pathname = `/addon_${db.id.slice(4)}`;
  const admin = new pg.Client({ connectionString: url.href });
  await admin.connect();
  await admin.query("create table theirs (id int)");
  await admin.end();
  const fork = await db.fork({ service: db.id });
  expect(await fork.untilRestored()).toMatchObject({
    status: "failed",
    failure: "The backup did not succeed, or is not there any more.",
  });
  expect(await fork.query("select to_regclass('theirs') as theirs")).toEqual([{ theirs: null }]);
});

withRedis(
  "a fork is refused of what is not there, of another type, or not whole, and makes nothing then",
  async () => {
    const store = await addonWithBackups(berth, "redis");
    const stranger = await addonWithBackups(berth, "redis");
    const other = await addonWithBackups(berth, "redis", store.accountId);
    const theirs = await other.backUp();
    const create = (from: object, type = "redis") =>
      refused(store.catalog.createService({ ...store.environment, name: "fork", type, from: from as never }));
    expect(await create({ service: stranger.id })).toBe("404 not_found");
    expect(await create({ service: "svc_none" })).toBe("404 not_found");
    expect(await create({ service: store.id, backup: theirs.id })).toBe("404 not_found");
    expect(await create({ service: store.id }, "web")).toBe("422 validation_failed not_addon");
    if (inject("hasDumps"))
      expect(await create({ service: store.id }, "postgres")).toBe("422 validation_failed other_type");
    await berth.pool.query("update backups set status = 'failed' where id = $1", [theirs.id]);
    expect(await create({ service: other.id, backup: theirs.id })).toBe("409 backup_incomplete");
    await berth.pool.query("update services set addon_state = 'failed' where id = $1", [other.id]);
    expect(await create({ service: other.id })).toBe("409 service_not_ready");
    await berth.pool.query("update services set addon_state = 'ready' where id = $1", [other.id]);
    const { data } = await store.catalog.listServices(store.environment);
    expect(data.map(({ name }) => name)).toEqual(["store"]);
    expect((await store.backups.listBackups(store.path)).data).toEqual([]);
  },
);

withRedis("an addon of another type does not get the data of one", async () => {
  const store = await addonWithBackups(berth, "redis");
  const { id } = await store.backUp();
  const other = await addonWithBackups(berth, "redis", store.accountId);
  expect(await other.restore(id)).toMatchObject({ status: "succeeded" });
  await berth.pool.query("update backups set type = 'postgres' where id = $1", [id]);
  const restoring = other.backups.restoreBackup({ ...other.path, backup: id, confirmImpact: true });
  expect(await refused(restoring)).toBe("422 validation_failed other_type");
});

withRedis("a redis addon whose backup is damaged keeps its data, and says why", async () => {
  const store = await addonWithBackups(berth, "redis");
  const send = async (...commands: string[][]) =>
    command((await store.keys()) as unknown as PublishedKeys, ...commands);
  await send(["SET", "first", "1"]);
  const backup = await store.backUp();
  await send(["SET", "second", "2"]);
  const file = join(berth.dataDir, "store", "objects", (await store.objects())[0]!);
  const whole = await readFile(file);
  await writeFile(file, whole.subarray(0, whole.length - 12));
  expect(await store.restore(backup.id)).toMatchObject({
    status: "failed",
    failure: "The redis server cannot read this backup, which may be of a newer version.",
  });
  await eventually("it answers", () =>
    send(["RENAME", "second", "kept"]).then(
      () => true,
      () => false,
    ),
  );
  await send(["RENAME", "first", "kept too"]);
});

withDumps(
  "apps that use all connections of an addon keep neither a backup nor a restore from it",
  async () => {
    const db = await addonWithBackups(berth, "postgres");
    await db.query("create table notes (id int)");
    const apps: pg.Client[] = [];
    for (;;) {
      const app = await db.connect().catch(() => undefined);
      if (!app) break;
      apps.push(app);
    }
    expect(apps.length).toBeGreaterThan(1);
    const backup = await db.backUp();
    expect(backup.status).toBe("succeeded");
    expect(await db.restore(backup.id)).toMatchObject({ status: "succeeded" });
    await Promise.all(apps.map((app) => app.end().catch(() => {})));
    expect(await db.query("select * from notes")).toEqual([]);
  },
);

withDumps(
  "functions in a backup have no other rights than the addon, in whatever role they try",
  async () => {
    const db = await addonWithBackups(berth, "postgres");
    await db.query(`
    create table seen (who name, denied bool);
    create function look(int) returns bool language plpgsql as $$ declare denied bool := false; begin
      begin
        perform set_config('role', 'none', true);
        perform from public.seen;
      exception when insufficient_privilege then denied := true; end;
      insert into public.seen values (session_user, denied);
      return true;
    end $$;
    create table watched (id int check (look(id)));
    insert into watched values (1);
    truncate seen`);
    const backup = await db.backUp();
    expect(await db.restore(backup.id)).toMatchObject({ status: "succeeded" });
    expect(await db.query("select * from watched")).toEqual([{ id: 1 }]);
    expect(await db.query("select * from seen")).toEqual([
      { who: `addon_${db.id.slice(4)}_copier`, denied: true },
    ]);
    expect(await namesOf(db.id)).toHaveLength(2);
  },
);

withDumps("what cannot be restored leaves the addon as it was, and says so", async () => {
  const db = await addonWithBackups(berth, "postgres");
  await db.query("create table notes (id int)");
  const backup = await db.backUp();
  await db.query("insert into notes values (1)");
  await berth.pool.query("update backups set object = 'backups/other' where id = $1", [backup.id]);
  await db.backups.restoreBackup({ ...db.path, backup: backup.id, confirmImpact: true });
  await untilGivenUp("restores", "service_id", db.id);
  expect(await db.untilRestored()).toMatchObject({
    status: "failed",
    failure: "It could not be restored in 3 attempts. The log of the installation says why.",
  });
  expect(await db.query("select * from notes")).toEqual([{ id: 1 }]);
  expect(await namesOf(db.id)).toHaveLength(2);
});

withDumps("what the database refuses is said, without another attempt", async () => {
  const db = await addonWithBackups(berth, "postgres");
  const url = new URL(inject("postgresAdminUrl"));
  url.pathname = `/addon_${db.id.slice(4)}`;
  const admin = new pg.Client({ connectionString: url.href });
  await admin.connect();
  await admin.query("create table theirs (id int)");
  await admin.end();
  expect(await db.backUp()).toMatchObject({
    status: "failed",
    failure: "The database refused it: permission denied for table theirs.",
  });
  expect(await db.objects()).toEqual([]);
});

/** Nobody waits for the pauses between attempts. */
const untilGivenUp = (table: string, column: string, id: string) =>
  eventually("no attempt is left", async () => {
    const { rows } = await berth.pool.query(`select status from ${table} where ${column} = $1`, [id]);
    await berth.pool.query(
      `update ${table} set due_at = now() where ${column} = $1 and attempts > 0 and due_at > now() + interval '5 s'
         and due_at < now() + interval '25 s'`,
      [id],
    );
    return rows[0]?.status === "failed";
  });

withDumps("another account, a reader and another addon have no part in an addon's backups", async () => {
  const db = await addonWithBackups(berth, "postgres");
  const other = await addonWithBackups(berth, "postgres");
  const { id } = await db.backUp();
  const stranger = clientAs(BackupService, berth.port, { accountId: other.accountId, role: "owner" });
  const theirs = { ...db.path, accountId: other.accountId, backupId: id, backup: id, confirmImpact: true };
  for (const call of [
    () => stranger.createBackup(theirs),
    () => stranger.listBackups(theirs),
    () => stranger.getBackup(theirs),
    () => stranger.deleteBackup(theirs),
    () => stranger.restoreBackup(theirs),
    () => other.get(id),
    () => other.backups.deleteBackup({ ...other.path, backupId: id }),
    () => other.backups.restoreBackup({ ...other.path, backup: id, confirmImpact: true }),
  ])
    expect(await refused(call())).toBe("404 not_found");
  const reader = clientAs(BackupService, berth.port, { accountId: db.accountId, role: "reader" });
  expect((await reader.listBackups(db.path)).data).toMatchObject([{ id }]);
  for (const call of [
    () => reader.createBackup(db.path),
    () => reader.deleteBackup({ ...db.path, backupId: id }),
    () => reader.restoreBackup({ ...db.path, backup: id, confirmImpact: true }),
  ])
    expect(await refused(call())).toBe("403 forbidden");
});

withRedis(
  "a backup is downloaded by whoever has its URL, which editors get, and the audit log says",
  async () => {
    const store = await addonWithBackups(berth, "redis");
    const { id } = await store.backUp();
    const at = { ...store.path, backupId: id };
    const { url, expiresAt } = await store.backups.downloadBackup(at);
    expect(Number(expiresAt!.seconds)).toBeGreaterThan(Date.now() / 1_000);
    const answer = await fetch(url);
    expect(answer.headers.get("content-disposition")).toBe(`attachment; filename="store-${id}.rdb"`);
    expect((await answer.text()).slice(0, 5)).toMatch(/^(?:REDIS|VALKE)/);
    const reader = clientAs(BackupService, berth.port, { accountId: store.accountId, role: "reader" });
    expect(await refused(reader.downloadBackup(at))).toBe("403 forbidden");
    const other = await addonWithBackups(berth, "redis");
    expect(await refused(other.backups.downloadBackup({ ...other.path, backupId: id }))).toBe(
      "404 not_found",
    );
    await berth.pool.query("update backups set status = 'failed' where id = $1", [id]);
    expect(await refused(store.backups.downloadBackup(at))).toBe("409 backup_incomplete");
    expect(await berth.eventsOf(store.accountId)).toContain("AuditRecorded");
  },
);

withDumps("one backup or restore of an addon at a time, and only of an addon", async () => {
  const db = await addonWithBackups(berth, "postgres");
  const { id: backup } = await db.backUp();
  const create = () => refused(db.backups.createBackup(db.path));
  const restore = (id: string) =>
    refused(db.backups.restoreBackup({ ...db.path, backup: id, confirmImpact: true }));
  await berth.pool.query(
    "insert into backups (id, account_id, service_id, type, trigger, due_at) values ('bkp_busy', $1, $2, 'postgres', 'manual', null)",
    [db.accountId, db.id],
  );
  expect(await create()).toBe("409 backup_running");
  expect(await restore(backup)).toBe("409 backup_running");
  expect(await restore("bkp_busy")).toBe("409 backup_incomplete");
  expect(await refused(db.backups.deleteBackup({ ...db.path, backupId: "bkp_busy" }))).toBe(
    "409 backup_running",
  );
  await berth.pool.query("delete from backups where id = 'bkp_busy'");
  await berth.pool.query("insert into restores (service_id, backup_id, due_at) values ($1, $2, null)", [
    db.id,
    backup,
  ]);
  expect(await create()).toBe("409 restore_running");
  expect(await restore(backup)).toBe("409 restore_running");
  expect(await refused(db.backups.deleteBackup({ ...db.path, backupId: backup }))).toBe(
    "409 restore_running",
  );
  await berth.pool.query("delete from restores where service_id = $1", [db.id]);
  await berth.pool.query(
    `insert into backups (id, account_id, service_id, type, trigger, status, due_at)
     select 'bkp_' || n, $1, $2, 'postgres', 'manual', 'succeeded', null from generate_series(1, 19) n`,
    [db.accountId, db.id],
  );
  expect(await create()).toBe("409 too_many_backups");
  const web = await createWebService(berth.port);
  const { accountId } = web;
  const backups = clientAs(BackupService, berth.port, { accountId, role: "owner" });
  expect(await refused(backups.createBackup(web.path))).toBe("422 validation_failed not_addon");
  expect((await backups.listBackups(web.path)).data).toEqual([]);
});

withDumps("nothing is left of a backup that was deleted, before its addon and after it", async () => {
  const db = await addonWithBackups(berth, "postgres");
  const [one, two] = [await db.backUp(), await db.backUp()];
  expect((await db.backups.listBackups(db.path)).data.map(({ id }) => id)).toEqual([two.id, one.id]);
  expect(await db.objects()).toHaveLength(2);
  await db.backups.deleteBackup({ ...db.path, backupId: one.id });
  expect(await refused(db.get(one.id))).toBe("404 not_found");
  await eventually("its object is gone", async () => (await db.objects()).length === 1);
  await db.catalog.deleteService({ ...db.path, confirmImpact: true });
  const kept = { accountId: db.accountId, backupId: two.id };
  await eventually("the newest one is kept", () => db.backups.getKeptBackup(kept).catch(() => undefined));
  await db.backups.deleteKeptBackup(kept);
  await eventually("no object is left", async () => (await db.objects()).length === 0);
  await eventually("no row is left", async () => {
    const { rowCount } = await berth.pool.query("select from backups where service_id = $1", [db.id]);
    return rowCount === 0;
  });
  await expect.poll(() => namesOf(db.id)).toEqual([]);
});

withDumps(
  "without its object store a backup fails, is announced once, and the next one succeeds",
  async () => {
    const db = await addonWithBackups(berth, "postgres");
    const [incoming, gone] = ["incoming", "gone"].map((name) => join(berth.dataDir, "store", name)) as [
      string,
      string,
    ];
    await rename(incoming, gone);
    const { id } = await db.backups.createBackup(db.path);
    try {
      await untilGivenUp("backups", "id", id);
    } finally {
      await rename(gone, incoming);
    }
    expect(await db.get(id)).toMatchObject({
      status: "failed",
      failure: "It could not be made in 3 attempts. The log of the installation says why.",
    });
    await eventually("it is announced", async () =>
      (await berth.eventsOf(db.accountId)).includes("BackupFailed"),
    );
    expect(await db.backUp()).toMatchObject({ status: "succeeded" });
    expect(await db.objects()).toHaveLength(1);
  },
);

withDumps(
  "each addon has one backup a night, whichever process begins it, and the newest are kept",
  async () => {
    const db = await addonWithBackups(berth, "postgres");
    const young = await addonWithBackups(berth, "postgres");
    const { id: manual } = await db.backUp();
    await berth.pool.query("update services set created_at = now() - interval '9 days' where id = $1", [
      db.id,
    ]);
    const listed = async () => (await db.backups.listBackups(db.path)).data;
    /** Two processes look whether the night's backup is to be begun, until it is made. */
    async function pass(before: string) {
      const deps = { pool: berth.pool, kept: 2, log: createLog("deployer", "silent"), wake: () => {} };
      const both = [1, 2].map(() => startNightly({ ...deps, backups: SUPPORTED }));
      const id = await eventually("it is made", async () => {
        const [newest] = await listed();
        return newest?.id !== before && newest?.status === "succeeded" && newest.id;
      });
      await Promise.all(both.map((one) => one.stop()));
      return id;
    }
    const nights = [await pass(manual)];
    expect((await listed()).map(({ trigger }) => trigger)).toEqual(["nightly", "manual"]);
    for (let night = 1; night <= 3; night++) {
      // Further each time: in whatever order rows are changed, no night is taken.
      await berth.pool.query("update backups set night = night - $2::int where service_id = $1", [
        db.id,
        10 ** night,
      ]);
      nights.push(await pass(nights.at(-1)!));
    }
    const kept = [...nights.slice(-2).reverse(), manual];
    await eventually("the oldest are gone", async () => (await listed()).length === kept.length);
    expect((await listed()).map(({ id }) => id)).toEqual(kept);
    await eventually("their objects too", async () => (await db.objects()).length === kept.length);
    expect((await young.backups.listBackups(young.path)).data).toEqual([]);
  },
);

test("where addons cannot be backed up, the reason is said, and none is begun", async () => {
  const backupsReason = "This installation has no pg_dump.";
  const lacking = await startDeployer({}, async (config, secrets, log) => {
    const engine = await startLocalEngine(config as never, secrets, log);
    const { addonServers } = engine;
    const backups = { ...addonServers.backups, unsupported: async () => backupsReason };
    return { ...engine, addonServers: { ...addonServers, backups } };
  });
  try {
    const db = await addonWithBackups(lacking, "postgres");
    const service = await db.catalog.getService(db.path);
    expect(service.capabilities).toMatchObject({ backups: false, backupsReason });
    const { code, reasons, details } = await refusal(db.backups.createBackup(db.path));
    expect([code, reasons, details[0]!.message]).toEqual([
      "validation_failed",
      ["not_supported_here"],
      backupsReason,
    ]);
    const restore = db.backups.restoreBackup({ ...db.path, backup: "bkp_1", confirmImpact: true });
    expect(await refused(restore)).toBe("422 validation_failed not_supported_here");
  } finally {
    await lacking.stop();
  }
});

const SUPPORTED = {
  unsupported: async () => undefined,
  make: () => Promise.reject(new Error("is not asked")),
  restore: () => Promise.reject(new Error("is not asked")),
  prove: () => Promise.reject(new Error("is not asked")),
  removeProof: () => Promise.reject(new Error("is not asked")),
};
