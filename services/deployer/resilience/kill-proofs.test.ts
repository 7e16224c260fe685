import { readdir } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject } from "vitest";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { withDumps, withRedis } from "../addons/testing.ts";
import { addonWithBackups, namesOf } from "../backups/testing.ts";
import { findProcessesOf } from "../shared/process-tree.ts";
import { startTestPlatform, type TestPlatform } from "../testing/testing.ts";
import { type DeployerProcess, deployerProcess } from "../testing/testing-process.ts";

let platform: TestPlatform;
let deployer: DeployerProcess;
let admin: pg.Client;

beforeAll(async () => {
  platform = await startTestPlatform();
  deployer = deployerProcess({ ...platform, env: { ...platform.env, ADDON_PROOFS: "on" } });
  admin = new pg.Client({ connectionString: inject("postgresAdminUrl") });
  await admin.connect();
});
beforeEach(async () => {
  await platform.pool.query("delete from backups; delete from proofs");
  await deployer.run();
});
afterEach(() => deployer.end("SIGTERM"));
afterAll(async () => {
  await admin?.end();
  await deployer?.end("SIGKILL");
  await platform?.stop();
});

/** Kills the deployer and starts another one, which does not wait for the lease. A process begins what is due at once. */
async function restart(meanwhile: () => Promise<void> = async () => {}) {
  await deployer.end("SIGKILL");
  await meanwhile();
  await platform.pool.query("update proofs set due_at = now() where due_at is not null");
  await deployer.run();
}

/** A database whose restore to the side waits for a role to be there. */
async function waitingDatabase() {
  const db = await addonWithBackups(platform, "postgres");
  const go = `go_${db.id.slice(4)}`;
  await db.query(`
    create function waits(int) returns bool language plpgsql as $$ begin
      while session_user like '%proof' and not exists (select from pg_roles where rolname = '${go}') loop
        perform pg_sleep(0.02);
      end loop;
      return true;
    end $$;
    create table notes (id int check (waits(id)));
    insert into notes values (1)`);
  const { id } = await db.backUp();
  const waits = () =>
    eventually("it is being restored", async () => {
      const { rowCount } = await admin.query(
        "select from pg_stat_activity where datname = $1 and wait_event = 'PgSleep'",
        [`addon_${db.id.slice(4)}_proof`],
      );
      return rowCount! > 0;
    });
  return { ...db, backup: id, go, waits };
}

const untilProved = (db: { get: (id: string) => Promise<{ provedAt?: unknown }> }, backup: string) =>
  eventually("it is proved", async () => (await db.get(backup)).provedAt !== undefined);

withDumps(
  "killed while a database is restored to the side: the next deployer proves it, and nothing is left",
  async () => {
    const db = await waitingDatabase();
    try {
      await restart();
      await db.waits();
      await restart(async () => void (await admin.query(`create role ${db.go}`)));
      await untilProved(db, db.backup);
      expect(await namesOf(db.id)).toHaveLength(2);
      expect(await db.query("select * from notes")).toEqual([{ id: 1 }]);
    } finally {
      await admin.query(`drop role if exists ${db.go}`);
    }
  },
);

withDumps("an addon that is deleted after a kill takes with it what is left of its proof", async () => {
  const db = await waitingDatabase();
  await restart();
  await db.waits();
  await restart();
  await db.catalog.deleteService({ ...db.path, confirmImpact: true });
  await eventually("nothing is left", async () => (await namesOf(db.id)).length === 0);
  await eventually("the proof is forgotten", async () => {
    const { rowCount } = await platform.pool.query("select from proofs where service_id = $1", [db.id]);
    return rowCount === 0;
  });
  expect(await namesOf(db.id)).toEqual([]);
});

withRedis.each(["kept", "lost"] as const)(
  "killed as a proof of redis is recorded, which is %s: it is proved, and nothing is left",
  async (outcome) => {
    const store = await addonWithBackups(platform, "redis");
    const { id } = await store.backUp();
    const held = await holdCommits(platform, "update", "proofs", "new.status = 'succeeded'");
    await restart();
    await held.reached();
    await restart(() => held.release(outcome));
    await untilProved(store, id);
    const folder = join(platform.dataDir, "redis-proofs");
    expect([await readdir(folder), findProcessesOf(folder)]).toEqual([[], []]);
  },
);
