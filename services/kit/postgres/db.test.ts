import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { ProblemSchema } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { toPublicError } from "../rpc/public-error.ts";
import { isRefusal } from "../rpc/refusals.ts";
import { openProxy } from "../testing/proxy.ts";
import { eventually, testDatabase } from "../testing/testing.ts";
import { DEFAULT_TIMEOUTS, type Timeouts } from "./connection.ts";
import { createPool, many, type Pool, type Tx, transaction } from "./db.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let pools: Pool[] = [];

beforeAll(async () => {
  database = await testDatabase(["one"]);
});

afterEach(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  pools = [];
});

afterAll(() => database.drop());

function open(max = 2, timeouts?: Partial<Timeouts>, url = database.url("one")): Pool {
  const pool = createPool(url, { max, timeouts: { ...DEFAULT_TIMEOUTS, ...timeouts } });
  pools.push(pool);
  return pool;
}

/** What a caller is told of work that fails: status and code. */
async function told(work: Promise<unknown>): Promise<string> {
  const thrown = await work.then(
    () => expect.unreachable("it did not fail"),
    (error: unknown) => error,
  );
  const { error } = toPublicError(thrown, "req_1");
  const problem = isRefusal(error) ? error.findDetails(ProblemSchema)[0] : undefined;
  return `${problem?.status} ${problem?.code}`;
}

const breaks: [string, (tx: Tx, pid: number, other: Pool) => Promise<unknown>][] = [
  ["between two statements", (_tx, pid, other) => other.query("select pg_terminate_backend($1)", [pid])],
  ["during a statement", (tx, pid) => tx.query("select pg_terminate_backend($1)", [pid])],
  ["because it was closed", (tx) => (tx as unknown as pg.Client).end()],
  ["on the way", async (tx) => (tx as unknown as { connection: pg.Connection }).connection.stream.destroy()],
];
test.each(breaks)(
  "a connection that breaks within a transaction, %s, fails that work alone, with 503",
  async (_, end) => {
    const [pool, other] = [open(), open()];
    const work = transaction(pool, async (tx) => {
      const { rows } = await tx.query("select pg_backend_pid() as pid");
      const broken = new Promise((resolve) => tx.once("end", resolve));
      await end(tx, rows[0].pid, other);
      await broken;
      await tx.query("select 1");
    });
    expect(await told(work)).toBe("503 unavailable");
    expect((await pool.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
  },
);

const waits: [string, Partial<Timeouts>, (tx: Tx) => Promise<unknown>][] = [
  ["for a lock", { lockTimeoutMs: 100 }, (tx) => tx.query("lock table held")],
  ["for a statement", { statementTimeoutMs: 100 }, (tx) => tx.query("select pg_sleep(600)")],
  [
    "while its transaction is idle",
    { idleTransactionTimeoutMs: 100 },
    async (tx) => {
      await new Promise((resolve) => tx.once("end", resolve));
      await tx.query("select 1");
    },
  ],
];
test.each(waits)("a wait %s ends by setting, with 503, and the pool goes on", async (_, timeouts, wait) => {
  const [pool, other] = [open(1, timeouts), open()];
  await other.query("create table if not exists held ()");
  await transaction(other, async (tx) => {
    await tx.query("lock table held");
    expect(await told(transaction(pool, wait))).toBe("503 unavailable");
  });
  expect((await pool.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
});

test("what fails statements that are in flight together is told, not that the others came after it", async () => {
  const failing = "do $$ begin raise disk_full using message = 'could not extend file'; end $$";
  const later = async (work: Promise<unknown>) => await work.then((value) => value).then((value) => value);
  const work = transaction(open(), async (tx) => {
    await tx.query("select 0");
    const both = Promise.all([later(tx.query(failing)), tx.query("select 1")]);
    // All answers are there when this process gets to read them.
    setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200));
    return both;
  });
  expect(await told(work)).toBe("503 unavailable");
});

test("a server that falls silent without a word fails what waits for it, with 503, and the pool goes on", async () => {
  const proxy = await openProxy(new URL(database.url("one")));
  const pool = open(2, { statementTimeoutMs: 100 }, proxy.of(database.url("one")));
  const inTransaction = transaction(pool, async (tx) => {
    await tx.query("select 1");
    proxy.silence();
    await tx.query("select 1");
  });
  expect(await told(inTransaction)).toBe("503 unavailable");
  expect((await pool.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
  proxy.silence();
  expect(await told(pool.query("select 1"))).toBe("503 unavailable");
  expect((await pool.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
  proxy.shut();
});

test("while the database is away a connection is tried now and then, not for each request; it is back at once", async () => {
  const [server, through] = [new URL(database.url("one")), new URL(database.url("one"))];
  let [away, tried] = [false, 0];
  const listener = createServer((near) => {
    tried++;
    if (away) return void near.destroy();
    const far = connect(Number(server.port), server.hostname);
    near
      .on("error", () => {})
      .pipe(far.on("error", () => {}))
      .pipe(near);
  });
  await once(listener.listen(0, "127.0.0.1"), "listening");
  through.host = `127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const pool = open(10, {}, through.href);
  away = true;
  const requests = 2_000;
  for (let i = 0; i < requests; i++) expect(await told(pool.query("select 1"))).toBe("503 unavailable");
  expect(tried).toBeLessThan(requests / 10);
  away = false;
  await eventually("it answers again", () =>
    pool.query("select 1").then(
      () => true,
      () => false,
    ),
  );
  await Promise.all(Array.from({ length: 20 }, () => pool.query("select 1")));
  await pool.end();
  pools = [];
  listener.close();
});

test("transactions leave connections for single statements, however many wait for a lock", async () => {
  const [pool, other] = [open(4), open()];
  await other.query("create table if not exists held ()");
  let waiting: Promise<unknown>[] = [];
  await transaction(other, async (tx) => {
    await tx.query("lock table held");
    waiting = Array.from({ length: 8 }, () => transaction(pool, (one) => one.query("lock table held")));
    await eventually("as many wait as may", async () => {
      const { rows } = await pool.query("select count(*)::int as n from pg_locks where not granted");
      return rows[0].n >= 3;
    });
    expect((await pool.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
    expect(pool.waitingCount).toBe(0);
  });
  await Promise.all(waiting);
});

test("settings that the URL has win over those of the process", async () => {
  const url = new URL(database.url("one"));
  url.searchParams.set("options", "-c search_path=one -c lock_timeout=123");
  const { rows } = await open(1, {}, url.href).query("select current_setting('lock_timeout') as text");
  expect(rows).toEqual([{ text: "123ms" }]);
});

test.each<[string, (pool: Pool) => Promise<unknown>]>([
  ["a statement", (pool) => many(pool, "one", "select 1")],
  ["a connection", (pool) => pool.connect().then((client) => client.release())],
  ["a second transaction", (pool) => transaction(pool, async () => {})],
  ["a statement after a pause", (pool) => delay(1).then(() => pool.query("select 1"))],
])("inside a transaction %s of the same pool throws at once and rolls back", async (_, reach) => {
  // With one connection it would wait for itself.
  const pool = open(1);
  await pool.query("create table if not exists kept (n int)");
  const work = transaction(pool, async (tx) => {
    await tx.query("insert into kept values (1)");
    await reach(pool);
  });
  await expect(work).rejects.toThrow("may use only its tx");
  expect((await pool.query("select from kept")).rowCount).toBe(0);
});

test("a transaction may use another pool, and what it leaves behind its own once it is over", async () => {
  const [pool, other] = [open(1), open(1)];
  const later = await transaction(pool, async () => {
    await transaction(other, (tx) => tx.query("select 1"));
    const over = Promise.withResolvers<void>();
    const left = over.promise.then(() => pool.query("select 7 as n"));
    return { left, over };
  });
  later.over.resolve();
  expect((await later.left).rows).toEqual([{ n: 7 }]);
});

test("transactions of one pool that run beside each other do not disturb each other", async () => {
  const pool = open();
  await pool.query("create table beside (n int)");
  const work = (n: number, fails = false) =>
    transaction(pool, async (tx) => {
      await tx.query("insert into beside values ($1)", [n]);
      await tx.query("select pg_sleep(0.05)");
      // Neither what the others wrote, nor what they rolled back.
      const { rows } = await tx.query(
        "select count(*)::int as own from beside where xmin = pg_current_xact_id()::xid",
      );
      if (fails) throw new Error(`${n} fails`);
      return rows[0].own;
    });
  const done = await Promise.allSettled([work(1), work(2, true), pool.query("select 1 as n"), work(3)]);
  expect(done).toMatchObject([
    { status: "fulfilled", value: 1 },
    { status: "rejected", reason: { message: "2 fails" } },
    { status: "fulfilled", value: { rows: [{ n: 1 }] } },
    { status: "fulfilled", value: 1 },
  ]);
  expect((await pool.query("select n from beside order by n")).rows).toEqual([{ n: 1 }, { n: 3 }]);
});
