import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { createLog } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { enqueue } from "./sql.ts";
import { openDatabase } from "./testing.ts";
import { startWorkQueue } from "./work-queue.ts";

const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");

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

test("however many services are due, a hundred at most are in hand, and those with a deployment come first", async () => {
  const { pool, ids, drop } = await openDatabase(400);
  const deployed = ids.at(-1)!;
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  let most = 0;
  const queue = startWorkQueue({
    pool,
    log,
    owner: 1,
    background: () => [],
    step: (id) =>
      new Promise((resolve) => {
        begun.push(id);
        ends.push(() => resolve(undefined));
        most = Math.max(most, ends.length);
      }),
  });
  try {
    await enqueue(pool, ids.slice(0, -1));
    queue.wake();
    await eventually("some are in hand", async () => begun.length >= 100);
    const before = begun.length;
    await pool.query(
      `insert into deployments (id, service_id, version, status, config, source)
       select 'dep_1', id, 1, 'queued', config, source from services where id = $1`,
      [deployed],
    );
    await enqueue(pool, [deployed]);
    await eventually("all had a step", async () => {
      for (const end of ends.splice(0, 10)) end();
      return begun.length === ids.length;
    });
    expect(most).toBe(100);
    expect(begun.indexOf(deployed)).toBeLessThan(before + 50);
  } finally {
    for (const end of ends) end();
    await queue.stop();
    await drop();
  }
});
