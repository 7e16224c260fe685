import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { testNats } from "../../../test/support/servers/nats.ts";
import { connectBus, STREAM } from "../../kit/events/bus.ts";
import { startRelay } from "../../kit/events/outbox.ts";
import { createLog } from "../../kit/log.ts";
import { startChangeFeed } from "../../kit/postgres/change-feed.ts";
import { createPool, type Pool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { openProxy, type TcpProxy } from "../../kit/testing/proxy.ts";
import { testDatabase } from "../../kit/testing/testing.ts";
import { startLeaseSession } from "../due/lease-session.ts";
import { requireSingleInstance } from "../engine/single-instance.ts";

const log = createLog("test", "silent");
let database: Awaited<ReturnType<typeof testDatabase>>;
let nats: Awaited<ReturnType<typeof testNats>>;
let proxy: TcpProxy;
let pool: Pool;
const stops: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  [database, nats] = await Promise.all([testDatabase(["deployer"]), testNats()]);
  proxy = await openProxy(new URL(database.url("deployer")));
  pool = createPool(database.url("deployer"));
  await migrate(pool);
});

afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
  proxy?.shut();
  await pool?.end();
  await Promise.all([database?.drop(), nats?.remove()]);
});

/** Longer than it takes to find out that a session is silent. */
const patiently = (probe: () => Promise<void>) => vi.waitFor(probe, { timeout: 50_000, interval: 100 });

/** The sessions that hold an advisory lock in this database. */
async function holders(): Promise<number[]> {
  const { rows } = await pool.query<{ pid: number }>(
    `select pid from pg_locks where locktype = 'advisory' and granted
     and database = (select oid from pg_database where datname = current_database())`,
  );
  return rows.map(({ pid }) => pid);
}

test("when kept sessions fall silent unnoticed, others take over their locks, and notifications arrive again", async () => {
  const url = proxy.of(database.url("deployer"));
  const bus = connectBus(nats.url, "test", log);
  const relay = startRelay({ url, bus, log });
  let woken = 0;
  const leases = await startLeaseSession({ url, owner: 7, wake: () => woken++, log });
  const instance = await requireSingleInstance({ url, log });
  const changes = await startChangeFeed({ url, name: "deployer-follow", log, fallbackMs: 600_000 });
  stops.push(() => bus.close(), ...[relay, leases, instance, changes].map((one) => () => one.stop()));

  await patiently(async () => expect(await holders()).toHaveLength(3));
  const silent = await holders();
  proxy.silence();
  await patiently(async () => {
    const held = await holders();
    expect(held).toHaveLength(3);
    expect(held.filter((pid) => silent.includes(pid))).toEqual([]);
  });

  await pool.query(
    "insert into outbox (id, subject, payload) values ('evt_1', 'berth.deployer.v1.A.acc_1', '')",
  );
  const { manager } = await bus.connected;
  await patiently(async () => expect((await manager.streams.info(STREAM)).state.messages).toBe(1));

  const before = woken;
  await pool.query("select pg_notify('deployer:' || current_schema(), '')");
  await patiently(async () => expect(woken).toBeGreaterThan(before));

  const signal = changes.signal("svc_1");
  const hearing = signal.next(new AbortController().signal).then(() => true);
  await patiently(async () => {
    await pool.query("select pg_notify('deployer-follow:' || current_schema(), 'svc_1')");
    expect(await Promise.race([hearing, false])).toBe(true);
  });
  signal.close();
});
