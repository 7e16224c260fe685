import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { transaction } from "../../kit/postgres/db.ts";
import { createRandom } from "../../kit/testing/random.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { insertRow, startNotifications, type TestNotifications } from "../testing.ts";

let berth: TestNotifications;
beforeAll(async () => {
  berth = await startNotifications();
});
afterAll(() => berth?.stop());

type Client = ReturnType<TestNotifications["as"]>;
type Query = { unread?: boolean; limit?: number };

/** Follows `nextCursor` to the end of a list; `between` runs before each further page. */
async function walk(client: Client, query: Query, between: () => Promise<unknown> = async () => {}) {
  const listed = [];
  for (let cursor: string | undefined; cursor !== ""; ) {
    const { data, page } = await client.listNotifications({ ...query, cursor });
    listed.push(...data);
    cursor = page!.nextCursor;
    await between();
  }
  return listed;
}

test("pages list existing notifications exactly once, while others write, commit late and read", async () => {
  const random = createRandom(inject("seed"));
  for (let round = 0; round < 5; round++) {
    const userId = newId("usr");
    const client = berth.as(userId);
    const there: string[] = [];
    for (let n = random.between(20, 60); n > 0; n--) there.push(await insertRow(berth.pool, userId));
    const late = await berth.pool.connect();
    await late.query("begin");
    await insertRow(late, userId);
    const read = new Set<string>();
    const disturb = async () => {
      for (let n = random.below(3); n > 0; n--)
        await transaction(berth.pool, async (tx) => insertRow(tx, userId));
      const notificationId = random.of(there);
      read.add(notificationId);
      await client.markRead({ notificationId });
    };
    const query = { unread: random.next() < 0.5, limit: random.between(1, 9) };
    const listed = await walk(client, query, disturb);
    await late.query("commit");
    late.release();
    const ids = listed.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    // With unread=true, what is read meanwhile may be listed or not.
    const listedForSure = there.filter((id) => !query.unread || !read.has(id));
    expect(listedForSure.filter((id) => !ids.includes(id))).toEqual([]);
    const times = listed.map(({ createdAt }) => Number(createdAt!.seconds) * 1e3 + createdAt!.nanos / 1e6);
    expect(times).toEqual(times.toSorted((a, b) => b - a));
  }
});

test("rows of one microsecond are on one page or the next, and none is lost", async () => {
  const userId = newId("usr");
  await transaction(berth.pool, async (tx) => {
    for (let n = 0; n < 7; n++) await insertRow(tx, userId);
    await tx.query("update notifications set created_at = now() where user_id = $1", [userId]);
  });
  const ids = (await walk(berth.as(userId), { limit: 2 })).map(({ id }) => id);
  expect(ids).toHaveLength(7);
  expect(ids).toEqual(ids.toSorted().reverse());
});

test("a cursor belongs to its user and its list, and is not made up", async () => {
  const [userId, stranger] = [newId("usr"), newId("usr")];
  for (const user of [userId, userId, stranger, stranger]) await insertRow(berth.pool, user);
  const { page } = await berth.as(userId).listNotifications({ limit: 1 });
  const cursor = page!.nextCursor;
  const refusals = [
    berth.as(stranger).listNotifications({ cursor }),
    berth.as(userId).listNotifications({ cursor, unread: true }),
    berth.as(userId).listNotifications({ cursor: `${cursor.slice(0, -2)}AA` }),
    berth.as(userId).listNotifications({ cursor: "x" }),
  ];
  for (const one of refusals) expect(await refused(one)).toBe("400 malformed_request");
  expect((await berth.as(userId).listNotifications({ cursor, unread: false })).data).toHaveLength(1);
});

test("another user's notification is 404, for reading and for its decisions", async () => {
  const [userId, stranger] = [newId("usr"), newId("usr")];
  const notificationId = await insertRow(berth.pool, userId);
  const client = berth.as(stranger);
  expect(await refused(client.markRead({ notificationId }))).toBe("404 not_found");
  expect(await refused(client.getNotificationDecisions({ notificationId }))).toBe("404 not_found");
  await client.markAllRead({});
  expect(await berth.as(userId).countUnread({})).toMatchObject({ count: 1 });
});

test("what was only mailed is not in the feed and cannot be read, but is explained", async () => {
  const userId = newId("usr");
  const notificationId = await insertRow(berth.pool, userId, { visible: false });
  const client = berth.as(userId);
  expect((await client.listNotifications({})).data).toEqual([]);
  expect((await client.countUnread({})).count).toBe(0);
  expect(await refused(client.markRead({ notificationId }))).toBe("404 not_found");
  expect(await client.getNotificationDecisions({ notificationId })).toMatchObject({ inApp: false });
});

test("one that is read again keeps when it was read; read-all does not change it either", async () => {
  const userId = newId("usr");
  const client = berth.as(userId);
  const notificationId = await insertRow(berth.pool, userId);
  const { readAt } = await client.markRead({ notificationId });
  expect(readAt).toBeDefined();
  await client.markAllRead({});
  expect((await client.markRead({ notificationId })).readAt).toEqual(readAt);
});

test("read-all leaves unread what is committed after it, and counts it", async () => {
  const userId = newId("usr");
  const client = berth.as(userId);
  for (let n = 0; n < 3; n++) await insertRow(berth.pool, userId);
  const late = await berth.pool.connect();
  await late.query("begin");
  const id = await insertRow(late, userId);
  expect((await client.markAllRead({})).count).toBe(0);
  await late.query("commit");
  late.release();
  expect((await client.countUnread({})).count).toBe(1);
  expect((await client.listNotifications({ unread: true })).data).toMatchObject([{ id }]);
  expect((await client.markAllRead({})).count).toBe(0);
});

test("ten thousand: counted exactly, listed to the end, read at once", async () => {
  const userId = newId("usr");
  const client = berth.as(userId);
  await berth.pool.query(
    `insert into notifications (id, user_id, account_id, kind, title, body, metadata, dedupe_key, visible, channel,
       frequency, overridden, mail_state)
     select 'ntf_' || $1 || n, $1, '', 'deploy.ready', '', '', '{}', n, true, 'in_app', 'immediate', false, 'none'
     from generate_series(1, 10000) n`,
    [userId],
  );
  expect((await client.countUnread({})).count).toBe(10_000);
  const listed = await walk(client, { limit: 100, unread: true });
  expect(new Set(listed.map(({ id }) => id)).size).toBe(10_000);
  expect((await client.markAllRead({})).count).toBe(0);
});
