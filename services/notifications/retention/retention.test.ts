import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";
import { sweep } from "./retention.ts";

let service: TestNotifications;

beforeAll(async () => {
  service = await startNotifications();
});
afterAll(() => service.stop());

type Row = { userId: string; ageDays: number; readDaysAgo?: number; visible?: boolean; count?: number };

/** Writes notifications of some age, each a second older than the one before. Returns their ids. */
async function write({ userId, ageDays, readDaysAgo, visible = true, count = 1 }: Row): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId("ntf"));
  await service.pool.query(
    `insert into notifications (id, user_id, account_id, kind, title, body, metadata, dedupe_key, visible, channel,
       frequency, overridden, mail_state, created_at, read_at)
     select id, $2, '', 'deploy.ready', 'title', 'body', '{}', id, $3, 'in_app', 'immediate', false, 'none',
       to_timestamp($4) - make_interval(days => $5, secs => n), to_timestamp($4) - make_interval(days => $6)
     from unnest($1::text[]) with ordinality r (id, n)`,
    [ids, userId, visible, service.clock.ms / 1_000, ageDays, readDaysAgo ?? null],
  );
  return ids;
}

const sweepAll = () =>
  Promise.all([sweep(service.pool, service.clock.ms), sweep(service.pool, service.clock.ms)]);

test("what was read 90 days ago goes, and what is 180 days old, in the feed or not; the rest stays", async () => {
  const userId = newId("usr");
  const kept = [
    await write({ userId, ageDays: 89, readDaysAgo: 89 }),
    await write({ userId, ageDays: 179, readDaysAgo: 89 }),
    await write({ userId, ageDays: 179 }),
    await write({ userId, ageDays: 179, visible: false }),
  ];
  await write({ userId, ageDays: 100, readDaysAgo: 91 });
  await write({ userId, ageDays: 181 });
  await write({ userId, ageDays: 181, readDaysAgo: 1 });
  await write({ userId, ageDays: 181, visible: false });
  // More than one batch, and two replicas at once.
  await write({ userId, ageDays: 200, count: 2_500 });
  await sweepAll();
  const { rows } = await service.pool.query("select id from notifications where user_id = $1", [userId]);
  expect(rows.map(({ id }) => id).sort()).toEqual(kept.flat().sort());
});

test("beyond 1,000 unread the oldest are marked as read, and others' feeds stay as they are", async () => {
  const [full, small] = [newId("usr"), newId("usr")];
  const ids = await write({ userId: full, ageDays: 1, count: 3_200 });
  await write({ userId: full, ageDays: 1, visible: false, count: 5 });
  await write({ userId: small, ageDays: 170, count: 1_000 });
  await sweepAll();
  expect(await service.as(full).countUnread({})).toMatchObject({ count: 1_000 });
  expect(await service.as(small).countUnread({})).toMatchObject({ count: 1_000 });
  const text = "select id from notifications where user_id = $1 and visible and read_at is null";
  const { rows } = await service.pool.query(text, [full]);
  expect(rows.map(({ id }) => id).sort()).toEqual(ids.slice(0, 1_000).sort());
});

test("a row that another transaction has locked is skipped, and deleted the next time", async () => {
  const userId = newId("usr");
  const [held] = await write({ userId, ageDays: 200, count: 3 });
  const holder = await service.pool.connect();
  await holder.query("begin");
  await holder.query("select from notifications where id = $1 for update", [held]);
  await sweepAll();
  const text = "select id from notifications where user_id = $1";
  expect((await service.pool.query(text, [userId])).rows).toEqual([{ id: held }]);
  await holder.query("rollback");
  holder.release();
  await sweepAll();
  expect((await service.pool.query(text, [userId])).rows).toEqual([]);
});
