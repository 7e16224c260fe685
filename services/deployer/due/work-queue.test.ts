import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { newId } from "../../kit/ids.ts";
import { createLog } from "../../kit/log.ts";
import { createPool, type Pool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { eventually, testDatabase } from "../../kit/testing/testing.ts";
import { mergeConfig } from "../projects/service-config.ts";
import { insertService } from "../projects/services-sql.ts";
import { insertEnvironment, insertProject } from "../projects/sql.ts";
import { enqueue } from "./sql.ts";
import { startWorkQueue } from "./work-queue.ts";

const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");

/** A database with so many services. */
async function openDatabase(services: number) {
  const database = await testDatabase(["deployer"]);
  const pool = createPool(database.url("deployer"));
  await migrate(pool, join(import.meta.dirname, "../migrations"));
  const [accountId, projectId, environmentId] = ["acc_work", newId("prj"), newId("env")];
  await insertProject(pool, projectId, accountId, "work");
  await insertEnvironment(pool, environmentId, accountId, projectId, "production");
  const config = mergeConfig("web", undefined, undefined);
  const more = { type: "web", source: {}, config, staged: false, addonState: undefined };
  const ids = Array.from({ length: services }, () => newId("svc"));
  for (const [at, id] of ids.entries())
    await insertService(pool, { id, accountId, projectId, environmentId, name: `web${at}`, ...more });
  const drop = async () => {
    await pool.end();
    await database.drop();
  };
  return { pool, ids, drop };
}

test("a service gets another step when its background work ends just after one", async () => {
  const { pool, ids, drop } = await openDatabase(1);
  const [id = ""] = ids;

  // Tells when services begin to be taken: meanwhile no lease is given back.
  let taking = Promise.withResolvers<void>();
  const query = (statement: { name: string }) => {
    if (statement.name === "work_claim") taking.resolve();
    return pool.query(statement as never);
  };
  const behind = new Set<string>();
  let steps = 0;
  const queue = startWorkQueue({
    pool: { query } as unknown as Pool,
    log,
    owner: 1,
    background: () => [...behind],
    async step() {
      steps++;
      if (steps % 2 === 0) return undefined;
      behind.add(id);
      taking = Promise.withResolvers();
      queue.wake();
      await taking.promise;
      // The background work ends after this step, and before its lease is given back.
      void nextTurn().then(() => {
        behind.delete(id);
        queue.backgroundEnded(id, false);
      });
      return 3_600_000;
    },
  });
  try {
    for (let round = 1; round <= 5; round++) {
      const before = steps;
      await enqueue(pool, [id]);
      queue.wake();
      await eventually("it gets another step", () => Promise.resolve(steps >= before + 2));
    }
    expect(steps).toBe(10);
  } finally {
    await queue.stop();
    await drop();
  }
});

test("a service that becomes due while its lease is given up gets another step", async () => {
  const { pool, ids, drop } = await openDatabase(1);
  const [id = ""] = ids;
  const session = await pool.connect();
  let steps = 0;
  const queue = startWorkQueue({
    pool,
    log,
    owner: 1,
    background: () => [],
    async step() {
      steps++;
      if (steps > 1) return;
      // Not committed before the release has begun, which waits for this row.
      await session.query("begin");
      await enqueue(session, [id]);
    },
  });
  try {
    await enqueue(pool, [id]);
    queue.wake();
    await eventually("the release waits", async () => {
      const { rowCount } = await pool.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
           and query like 'update work set lease_owner = null%'`,
      );
      return rowCount === 1;
    });
    await session.query("commit");
    const steppedAgain = () => {
      queue.wake();
      expect(steps).toBe(2);
    };
    await vi.waitFor(steppedAgain, { timeout: 30_000, interval: 25 });
  } finally {
    session.release();
    await queue.stop();
    await drop();
  }
});

test("services that become due together all get a step, and take few statements to become due", async () => {
  const { pool, ids, drop } = await openDatabase(100);
  let statements = 0;
  const query = (statement: { name: string }) => {
    if (statement.name === "work_enqueue") statements++;
    return pool.query(statement as never);
  };
  const stepped = new Set<string>();
  const queue = startWorkQueue({
    pool: { query } as unknown as Pool,
    log,
    owner: 1,
    background: () => [],
    step: async (id) => void stepped.add(id),
  });
  try {
    for (const id of ids) queue.enqueue(id);
    await eventually("all were enqueued", async () => {
      queue.wake();
      return stepped.size === ids.length;
    });
    expect(statements).toBe(2);
  } finally {
    await queue.stop();
    await drop();
  }
});
