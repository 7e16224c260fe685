import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, inject, test } from "vitest";
import { createLog } from "../../kit/log.ts";
import { transaction } from "../../kit/postgres/db.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { command, type PublishedKeys, withDumps, withRedis } from "../addons/testing.ts";
import { startMovingBackups } from "../backups/move-backups.ts";
import { addonWithBackups } from "../backups/testing.ts";
import { createSecrets } from "../secrets.ts";
import type { ObjectStore } from "../store/port.ts";
import { startTestPlatform, type TestPlatform } from "../testing/testing.ts";
import { type DeployerProcess, deployerProcess } from "../testing/testing-process.ts";

let platform: TestPlatform;
let deployer: DeployerProcess;

beforeAll(async () => {
  platform = await startTestPlatform();
  deployer = deployerProcess(platform);
});
afterEach(() => deployer.end("SIGTERM"));
afterAll(async () => {
  await deployer?.end("SIGKILL");
  await platform?.stop();
});

/** Kills the deployer and starts another one, which does not wait for the leases. */
async function restart(meanwhile: () => Promise<void> = async () => {}) {
  await deployer.end("SIGKILL");
  await meanwhile();
  for (const table of ["backups", "restores"])
    await platform.pool.query(`update ${table} set due_at = now() where due_at is not null`);
  await deployer.run();
}

/** Returns the arguments of all processes of a program. */
function argumentsOf(program: string): string[][] {
  const words = readdirSync("/proc").flatMap((pid) => {
    try {
      return /^\d+$/.test(pid) ? [readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")] : [];
    } catch {
      return []; // it has ended
    }
  });
  return words.filter(([file = ""]) => basename(file) === program);
}

/** A postgres addon with one row, `first`. */
async function database() {
  const db = await addonWithBackups(platform, "postgres");
  await db.query("create table notes (text text)");
  await db.query("insert into notes values ('first')");
  return { ...db, notes: () => db.query("select text from notes order by text") };
}

withDumps("killed while a database is read: the backup is made anew, and has one object", async () => {
  await deployer.run();
  const db = await database();
  const app = await db.connect();
  await app.query("begin; lock table notes in access exclusive mode");
  const { id } = await db.backups.createBackup(db.path);
  await eventually("it is being read", async () => {
    const { rows } = await app.query(
      "select from pg_locks where relation = 'notes'::regclass and not granted",
    );
    return rows.length > 0;
  });
  const reading = argumentsOf("pg_dump").find((words) =>
    words.some((word) => word.includes(db.id.slice(4))),
  )!;
  const target = reading.find((word) => word.startsWith("--dbname="))!.slice("--dbname=".length);
  expect(new URL(target).password).toBe("");
  await restart();
  await app.query("commit");
  await app.end();
  expect(await db.untilEnded(id)).toMatchObject({ status: "succeeded" });
  expect(await db.objects()).toHaveLength(1);
});

withDumps.each(["kept", "lost"] as const)(
  "killed as a backup is recorded, which is %s: it has succeeded, and has one object",
  async (outcome) => {
    await deployer.run();
    const db = await database();
    const held = await holdCommits(platform, "update", "backups", "new.status = 'succeeded'");
    const { id } = await db.backups.createBackup(db.path);
    await held.reached();
    await restart(() => held.release(outcome));
    expect(await db.untilEnded(id)).toMatchObject({ status: "succeeded" });
    expect(await db.objects()).toHaveLength(1);
    expect(await db.restore(id)).toMatchObject({ status: "succeeded" });
  },
);

withDumps(
  "killed while a database is restored: until the restore has succeeded, the addon has its data of before",
  async () => {
    await deployer.run();
    const db = await database();
    const go = `go_${db.id.slice(4)}`;
    await db.query(`
    create function waits(text) returns bool language plpgsql as $$ begin
      while session_user like '%copier' and not exists (select from pg_roles where rolname = '${go}') loop
        perform pg_sleep(0.02);
      end loop;
      return true;
    end $$;
    alter table notes add check (waits(text))`);
    const { id } = await db.backUp();
    await db.query("insert into notes values ('second')");
    await db.backups.restoreBackup({ ...db.path, backup: id, confirmImpact: true });
    const admin = new pg.Client({ connectionString: inject("postgresAdminUrl") });
    await admin.connect();
    try {
      await eventually("it is being restored", async () => {
        const { rowCount } = await admin.query(
          "select from pg_stat_activity where datname = $1 and wait_event = 'PgSleep'",
          [`addon_${db.id.slice(4)}_restored`],
        );
        return rowCount! > 0;
      });
      expect(await db.notes()).toEqual([{ text: "first" }, { text: "second" }]);
      await restart(async () => void (await admin.query(`create role ${go}`)));
      expect(await db.untilRestored()).toMatchObject({ status: "succeeded" });
      expect(await db.notes()).toEqual([{ text: "first" }]);
    } finally {
      await admin.query(`drop role if exists ${go}`);
      await admin.end();
    }
  },
);

withDumps.each(["kept", "lost"] as const)(
  "killed as a restore of a database is recorded, which is %s: the addon has the rows of the backup",
  async (outcome) => {
    await deployer.run();
    const db = await database();
    const { id } = await db.backUp();
    await db.query("insert into notes values ('second')");
    const held = await holdCommits(platform, "update", "restores", "new.status = 'succeeded'");
    await db.backups.restoreBackup({ ...db.path, backup: id, confirmImpact: true });
    await held.reached();
    await restart(() => held.release(outcome));
    expect(await db.untilRestored()).toMatchObject({ status: "succeeded", backup: id });
    expect(await db.notes()).toEqual([{ text: "first" }]);
  },
);

withDumps("killed while a fork waits for the backup of its source: it gets the data", async () => {
  await deployer.run();
  const db = await database();
  const app = await db.connect();
  await app.query("begin; lock table notes in access exclusive mode");
  const fork = await db.fork({ service: db.id });
  await eventually("the source is being read", async () => {
    const { rows } = await app.query(
      "select from pg_locks where relation = 'notes'::regclass and not granted",
    );
    return rows.length > 0;
  });
  await restart();
  await app.query("commit");
  await app.end();
  expect(await fork.untilRestored()).toMatchObject({ status: "succeeded" });
  expect(await fork.query("select text from notes")).toEqual([{ text: "first" }]);
});

withRedis("killed as a restore of redis is recorded: the addon has the keys of the backup", async () => {
  await deployer.run();
  const store = await addonWithBackups(platform, "redis");
  const send = async (...commands: string[][]) =>
    command((await store.keys()) as unknown as PublishedKeys, ...commands);
  await send(["SET", "first", "1"]);
  const { id } = await store.backUp();
  await send(["SET", "second", "2"]);
  const held = await holdCommits(platform, "update", "restores", "new.status = 'succeeded'");
  await store.backups.restoreBackup({ ...store.path, backup: id, confirmImpact: true });
  await held.reached();
  await restart(() => held.release("lost"));
  expect(await store.untilRestored()).toMatchObject({ status: "succeeded" });
  await send(["RENAME", "first", "kept"]);
  await expect(send(["RENAME", "second", "lost"])).rejects.toThrow("refused");
});

withDumps("a deployer that stops lets go of a backup at once, and the next one makes it", async () => {
  await deployer.run();
  const db = await database();
  const app = await db.connect();
  await app.query("begin; lock table notes in access exclusive mode");
  const { id } = await db.backups.createBackup(db.path);
  await eventually("it is being read", async () => {
    const { rows } = await app.query(
      "select from pg_locks where relation = 'notes'::regclass and not granted",
    );
    return rows.length > 0;
  });
  await deployer.end("SIGTERM");
  const { rows } = await platform.pool.query(
    "select due_at <= now() as due, attempts from backups where id = $1",
    [id],
  );
  expect(rows).toEqual([{ due: true, attempts: 0 }]);
  await app.query("commit");
  await app.end();
  await deployer.run();
  expect(await db.untilEnded(id)).toMatchObject({ status: "succeeded" });
});

withDumps(
  "a service that is deleted while it is backed up leaves no object, also with a kill in between",
  async () => {
    await deployer.run();
    const db = await database();
    const held = await holdCommits(platform, "update", "backups", "new.status = 'succeeded'");
    await db.backups.createBackup(db.path);
    await held.reached();
    await db.catalog.deleteService({ ...db.path, confirmImpact: true });
    await restart(() => held.release("lost"));
    await eventually("no object is left", async () => (await db.objects()).length === 0);
    await eventually("no row is left", async () => {
      const { rowCount } = await platform.pool.query("select from backups where service_id = $1", [db.id]);
      return rowCount === 0;
    });
  },
);

const secrets = createSecrets([randomBytes(32)]);

/** Inserts addons that have no server: neither a trigger makes them due, nor does a project have them. */
async function insertAddons(ids: string[]): Promise<void> {
  await transaction(platform.pool, async (tx) => {
    await tx.query("set local session_replication_role = replica");
    await tx.query(
      `insert into services (id, account_id, project_id, environment_id, name, type, source, config, staged, addon_secret)
       select id, 'acc', 'prj', 'env', id, 'redis', '{}', '{"size": "nano"}', false, secret
       from unnest($1::text[], $2::bytea[]) as n (id, secret)`,
      [ids, ids.map((id) => secrets.seal("a password", id))],
    );
  });
}

/** Processes that share the database of the platform, with a store and addons of the test. */
function replicas(count: number, make: (key: string) => Promise<void>) {
  const objects = new Set<string>();
  const store = {
    stat: async (key: string) =>
      objects.has(key) ? { size: 1, contentType: "", lastModified: new Date() } : undefined,
    remove: async (key: string) => void objects.delete(key),
    removePrefix: async (prefix: string) => {
      for (const key of objects) if (key.startsWith(prefix)) objects.delete(key);
    },
  } as Partial<ObjectStore> as ObjectStore;
  const backups = {
    unsupported: async () => undefined,
    async make(_addon: unknown, _password: string, key: string) {
      await make(key);
      objects.add(key);
      return { version: "1" };
    },
    restore: async () => {},
    prove: () => Promise.reject(new Error("not asked for")),
    removeProof: async () => {},
  };
  const { pool } = platform;
  const deps = { pool, store, secrets, backups, kept: 7, log: createLog("deployer", "silent") };
  const all = Array.from({ length: count }, () =>
    startMovingBackups({ ...deps, addons: { provision: async () => true } }),
  );
  return { objects, stop: () => Promise.all(all.map((one) => one.stop())) };
}

test("two processes share the backups that are due: each is made by one", async () => {
  await insertAddons(Array.from({ length: 30 }, (_, at) => `svc_many${at + 1}`));
  await platform.pool.query(
    `insert into backups (id, account_id, service_id, type, trigger)
     select 'bkp_many' || n, 'acc', 'svc_many' || n, 'postgres', 'manual' from generate_series(1, 30) n`,
  );
  const begun: string[] = [];
  const both = replicas(2, async (key) => void begun.push(key));
  await eventually("all are made", async () => {
    const { rowCount } = await platform.pool.query(
      "select from backups where id like 'bkp_many%' and status = 'succeeded'",
    );
    return rowCount === 30;
  });
  await both.stop();
  expect(begun).toHaveLength(30);
  expect(both.objects).toEqual(new Set(begun));
});

test("a process that was suspended past its lease takes nothing from the one that made the backup", async () => {
  await insertAddons(["svc_slow"]);
  await platform.pool.query(
    "insert into backups (id, account_id, service_id, type, trigger) values ('bkp_slow', 'acc', 'svc_slow', 'redis', 'manual')",
  );
  const { promise: woken, resolve: wake } = Promise.withResolvers<void>();
  const begun: string[] = [];
  const both = replicas(2, async (key) => {
    begun.push(key);
    if (begun.length === 1) await woken;
  });
  await eventually("the first has begun", async () => begun.length === 1);
  await platform.pool.query("update backups set due_at = now() where id = 'bkp_slow'");
  await eventually("the second has made it", async () => {
    const { rows } = await platform.pool.query("select object from backups where id = 'bkp_slow'");
    return rows[0].object === begun[1] && begun.length === 2;
  });
  wake();
  await eventually("the first has removed what it wrote", async () => !both.objects.has(begun[0]!));
  await both.stop();
  expect(both.objects).toEqual(new Set([begun[1]]));
});
