import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { transaction } from "../../kit/postgres/db.ts";
import { createRandom } from "../../kit/testing/random.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { insertRow, startNotifications, type TestNotifications } from "../testing.ts";

let berth: TestNotifications;
let other: Awaited<ReturnType<TestNotifications["startOne"]>>;

beforeAll(async () => {
  berth = await startNotifications();
  other = await berth.startOne();
});
afterAll(async () => {
  await other?.stop();
  await berth?.stop();
});

type Client = ReturnType<TestNotifications["as"]>;
type Seen = { id: string; notification?: string; unread?: number };

/** Collects a stream until it is closed. */
function collect(client: Client, lastEventId?: string) {
  const closing = new AbortController();
  const seen: Seen[] = [];
  const ended = (async () => {
    const stream = client.followNotifications({ lastEventId }, { signal: closing.signal });
    for await (const { id, event } of stream)
      if (event.case === "notification") seen.push({ id, notification: event.value.id });
      else if (event.case === "unread") seen.push({ id, unread: event.value.count });
  })();
  ended.catch(() => {});
  const arrived = () => seen.flatMap(({ notification }) => notification ?? []);
  const counts = () => seen.flatMap(({ unread }) => unread ?? []);
  return {
    seen,
    arrived,
    counts,
    untilCount: (count: number) => eventually(`unread is ${count}`, async () => counts().at(-1) === count),
    untilArrived: (id: string) => eventually("it arrives", async () => arrived().includes(id)),
    close: async () => {
      closing.abort();
      await ended.catch(() => {});
    },
  };
}

/** While any transaction of the server is older than what was written, that counts as unseen. */
async function untilSettled(): Promise<void> {
  const { rows } = await berth.pool.query("select pg_current_xact_id()::text as xid");
  await eventually("no transaction is older", async () => {
    const text = "select pg_snapshot_xmin(pg_current_snapshot()) > $1::text::xid8 as settled";
    return (await berth.pool.query(text, [rows[0].xid])).rows[0].settled;
  });
}

test("a new notification is sent once to each stream of its user, on every process, and to no other user's", async () => {
  const [userId, stranger] = [newId("usr"), newId("usr")];
  const old = await insertRow(berth.pool, userId);
  await untilSettled();
  const streams = [collect(berth.as(userId)), collect(berth.as(userId, other.port))];
  for (const stream of streams) await stream.untilCount(1);
  await insertRow(berth.pool, stranger);
  const hidden = await insertRow(berth.pool, userId, { visible: false });
  const fresh = await insertRow(berth.pool, userId, { kind: "deploy.failed" });
  for (const stream of streams) {
    await stream.untilCount(2);
    expect(stream.arrived()).toEqual([fresh]);
    expect(stream.arrived()).not.toContain(hidden);
  }
  await berth.as(userId).markRead({ notificationId: old });
  for (const stream of streams) await stream.untilCount(1);
  await berth.as(userId, other.port).markAllRead({});
  for (const stream of streams) {
    await stream.untilCount(0);
    expect(stream.counts()).toEqual([1, 2, 1, 0]);
    await stream.close();
  }
});

test("a transaction that commits late loses nothing: neither live nor when the stream is resumed", async () => {
  const userId = newId("usr");
  const live = collect(berth.as(userId));
  await live.untilCount(0);
  const late = await berth.pool.connect();
  await late.query("begin");
  const lateId = await insertRow(late, userId);
  const early = await insertRow(berth.pool, userId);
  await live.untilCount(1);
  const { id: lastEventId } = live.seen.at(-1)!;
  await late.query("commit");
  late.release();
  await live.untilCount(2);
  expect(live.arrived()).toEqual([early, lateId]);
  const resumed = collect(berth.as(userId, other.port), lastEventId);
  await resumed.untilArrived(lateId);
  await resumed.untilCount(2);
  await Promise.all([live.close(), resumed.close()]);
});

test("streams that are cut and resumed after any event, while many write, lose nothing and repeat nothing within one", async () => {
  const random = createRandom(inject("seed"));
  const userId = newId("usr");
  const written: string[] = [];
  const first = collect(berth.as(userId));
  await first.untilCount(0);
  let lastEventId = first.seen.at(-1)!.id;
  await first.close();
  const writers = Array.from({ length: 4 }, async () => {
    for (let n = 0; n < 30; n++)
      written.push(
        ...(await transaction(berth.pool, async (tx) => {
          const ids = [];
          for (let row = random.between(1, 3); row > 0; row--) {
            ids.push(await insertRow(tx, userId));
            await tx.query("select pg_sleep($1)", [random.next() / 50]);
          }
          return ids;
        })),
      );
  });
  const done = Promise.all(writers);
  const received = new Set<string>();
  const follow = async (enough: (arrived: string[]) => boolean) => {
    const stream = collect(berth.as(userId, random.of([berth.port, other.port])), lastEventId);
    await eventually("enough arrives", async () => enough(stream.arrived()));
    await stream.close();
    expect(new Set(stream.arrived()).size).toBe(stream.arrived().length);
    // Cut after any of its events: what came after it does not count as received.
    const kept = stream.seen.slice(0, random.between(1, stream.seen.length));
    for (const { notification } of kept) if (notification) received.add(notification);
    lastEventId = kept.at(-1)!.id;
  };
  for (let cut = 0; cut < 12; cut++) await follow((arrived) => arrived.length > 0);
  await done;
  const missing = () => written.filter((id) => !received.has(id));
  await eventually("all are received", async () => {
    if (missing().length > 0) await follow((arrived) => arrived.some((id) => missing().includes(id)));
    return missing().length === 0;
  });
  expect(received).toEqual(new Set(written));
});

test("ten thousand that arrived meanwhile are sent in order, each once, and then the count", async () => {
  const userId = newId("usr");
  const before = collect(berth.as(userId));
  await before.untilCount(0);
  const lastEventId = before.seen.at(-1)!.id;
  await before.close();
  // All at one time: pages within it are distinguished by id.
  await berth.pool.query(
    `insert into notifications (id, user_id, account_id, kind, title, body, metadata, dedupe_key, visible, channel,
       frequency, overridden, mail_state, created_at)
     select 'ntf_' || n, $1, '', 'deploy.ready', '', '', '{}', n, true, 'in_app', 'immediate', false, 'none', now()
     from generate_series(10001, 20000) n`,
    [userId],
  );
  const resumed = collect(berth.as(userId), lastEventId);
  await resumed.untilCount(10_000);
  expect(resumed.arrived()).toEqual(Array.from({ length: 10_000 }, (_, n) => `ntf_${10_001 + n}`));
  expect(resumed.counts()).toEqual([10_000]);
  await resumed.close();
});

test("changes arrive also while and after the session that listens is lost", async () => {
  const userId = newId("usr");
  const stream = collect(berth.as(userId));
  await stream.untilCount(0);
  await berth.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = 'notifications-follow' and datname = current_database()`,
  );
  const id = await insertRow(berth.pool, userId);
  await stream.untilArrived(id);
  const next = await insertRow(berth.pool, userId);
  await stream.untilArrived(next);
  await stream.close();
});

test("an id that no stream sent is refused; one in the future resumes from now", async () => {
  const userId = newId("usr");
  const open = (lastEventId: string) =>
    berth.as(userId).followNotifications({ lastEventId })[Symbol.asyncIterator]().next();
  for (const id of ["x", "1-1", "-1", "1.5", "12345678901234567", " 1"])
    expect(await refused(open(id))).toBe("400 malformed_request");
  const ahead = collect(berth.as(userId), "9999999999999999");
  await ahead.untilCount(0);
  const id = await insertRow(berth.pool, userId);
  await ahead.untilArrived(id);
  expect(Number(ahead.seen.at(-1)!.id)).toBeLessThan(Date.now() * 1_000);
  await ahead.close();
});
