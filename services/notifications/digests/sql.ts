import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { newId } from "../../kit/ids.ts";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import { FORCED, type KindKey } from "../kinds/kinds.ts";

// Statements that change pending rows skip those that another transaction has locked: it has sent, dropped or read them
// already. No transaction waits for another, so none can deadlock.

/** Notifications pending for a digest that is not made yet. */
const PENDING = "mail_state = 'digest' and digest_id is null";

/**
 * Counts a mail to each of these users unless `most` were counted within the hour before `now`. Returns the users who
 * have reached `most`.
 */
export async function countMails(db: Db, userIds: string[], now: Date, most: number): Promise<string[]> {
  const rows = await many<{ userId: string; held: boolean }>(
    db,
    "mail_bursts_count",
    `insert into mail_bursts as b (user_id, sent_at, held)
     select user_id, array[$2::timestamptz], false from unnest($1::text[]) user_id order by user_id
     on conflict (user_id) do update set (sent_at, held) = (
       select case when cardinality(sent) < $3 then sent || $2::timestamptz else sent end, cardinality(sent) >= $3
       from (select array(select t from unnest(b.sent_at) t where t > $2::timestamptz - interval '1 hour' order by t) as sent) hour)
     returning user_id as "userId", held`,
    [userIds, now, most],
  );
  return rows.filter(({ held }) => held).map(({ userId }) => userId);
}

/** Defers mails beyond the limit to a digest. */
export function deferMails(db: Db, ids: string[], until: Date): Promise<number> {
  return execute(
    db,
    "notifications_hold",
    "update notifications set mail_state = 'digest', mail_reason = 'burst', digest_at = $2 where id = any($1)",
    [ids, until],
  );
}

/**
 * Returns for each of these users whether a bundled mail is held back, and when its bundle is due: an hour after the last
 * mail. A closed bundle takes no more items.
 */
export async function reserveBundles(db: Db, kind: KindKey, userIds: string[], now: Date) {
  const rows = await many<{ userId: string; dueMs: number; held: boolean }>(
    db,
    "mail_bundles_take",
    `insert into mail_bundles as b (user_id, kind, due_at)
     select user_id, $3, $2::timestamptz from unnest($1::text[]) user_id order by user_id
     on conflict (user_id, kind) do update set sealed = false, due_at =
       case when b.due_at <= $2::timestamptz - interval '1 hour' then $2::timestamptz
         when b.due_at <= $2::timestamptz or b.sealed then b.due_at + interval '1 hour'
         else b.due_at end
     returning user_id as "userId", extract(epoch from due_at)::float8 * 1000 as "dueMs",
       due_at > $2::timestamptz as held`,
    [userIds, now, kind],
  );
  return new Map(rows.map(({ userId, dueMs, held }) => [userId, { dueAt: new Date(dueMs), held }]));
}

/** Adds notifications to their users' bundles. Returns the digests of newly opened bundles, by user. */
export async function fillBundles(
  db: Db,
  kind: KindKey,
  held: { id: string; userId: string; dueAt: Date }[],
) {
  const rows = await many<{ id: string; userId: string }>(
    db,
    "mail_bundles_fill",
    `with held as (
       select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[])
         h (id, user_id, due_at, digest_id, time_window)
     ), opened as (
       insert into digests (id, user_id, time_window) select digest_id, user_id, time_window from held order by user_id
       on conflict (user_id, time_window) do nothing returning id, user_id
     ), filled as (
       update notifications n set mail_state = 'digest', mail_reason = 'bundle', digest_at = h.due_at,
         digest_id = coalesce((select id from opened o where o.user_id = h.user_id),
           (select id from digests d where d.user_id = h.user_id and d.time_window = h.time_window))
       from held h where n.id = h.id
     )
     select id, user_id as "userId" from opened`,
    [
      held.map(({ id }) => id),
      held.map(({ userId }) => userId),
      held.map(({ dueAt }) => dueAt),
      held.map(() => newId("dig")),
      held.map(({ dueAt }) => `bundle:${kind}:${dueAt.toISOString()}`),
    ],
  );
  return new Map(rows.map(({ id, userId }) => [userId, id]));
}

/** Closes a user's bundle, waiting for transactions that are adding to it: later notifications go into the next one. */
export function closeBundle(db: Db, bundle: { userId: string; kind: KindKey; dueAt: Date }): Promise<number> {
  return execute(
    db,
    "mail_bundles_seal",
    "update mail_bundles set sealed = true where user_id = $1 and kind = $2 and due_at = $3",
    [bundle.userId, bundle.kind, bundle.dueAt],
  );
}

/** Drops pending notifications of a service's failed deployments up to a version that is now live. */
export function dropResolvedFailures(db: Db, { serviceId, version }: { serviceId: string; version: number }) {
  return execute(
    db,
    "notifications_drop_healed",
    `update notifications set mail_state = 'dropped', mail_reason = 'healed', mail_at = now()
     where id in (select id from notifications where ${PENDING} and kind = 'deploy.failed'
       and metadata->>'serviceId' = $1 and (metadata->>'version')::int <= $2 for update skip locked)`,
    [serviceId, version],
  );
}

// Only notifications with the preference weekly go into the weekly digest: those deferred as a burst go into the daily one.
const OF_DIGEST = "(frequency = 'weekly') = $1";

/** Lists users who have pending notifications that are due and no digest of this window yet. */
export async function listDueUsers(
  db: Db,
  due: { weekly: boolean; now: Date; window: string; limit: number },
) {
  const rows = await many<{ userId: string }>(
    db,
    "digests_due",
    `select distinct user_id as "userId" from notifications n
     where ${PENDING} and ${OF_DIGEST} and digest_at <= $2
       and not exists (select from digests d where d.user_id = n.user_id and d.time_window = $3)
     limit $4`,
    [due.weekly, due.now, due.window, due.limit],
  );
  return rows.map(({ userId }) => userId);
}

/** Drops due notifications of users without a verified e-mail. */
export function dropDue(db: Db, userIds: string[], { weekly, now }: { weekly: boolean; now: Date }) {
  return execute(
    db,
    "notifications_drop_due",
    `update notifications set mail_state = 'dropped', mail_reason = 'not_verified', mail_at = now()
     where id in (select id from notifications where ${PENDING} and ${OF_DIGEST} and digest_at <= $2
       and user_id = any($3) for update skip locked)`,
    [weekly, now, userIds],
  );
}

/** Inserts digests of a window for those users who have none yet, and returns them. */
export function insertDigests(
  db: Db,
  userIds: string[],
  window: string,
): Promise<{ id: string; userId: string }[]> {
  return many(
    db,
    "digests_insert",
    `insert into digests (id, user_id, time_window)
     select id, user_id, $3 from unnest($1::text[], $2::text[]) d (id, user_id) order by user_id
     on conflict (user_id, time_window) do nothing returning id, user_id as "userId"`,
    [userIds.map(() => newId("dig")), userIds, window],
  );
}

/**
 * Assigns the due notifications of these users to their digests of a window. One scan serves all users, even while the
 * planner has no statistics yet.
 */
export function fillDigests(db: Db, userIds: string[], due: { weekly: boolean; now: Date; window: string }) {
  return execute(
    db,
    "digests_fill",
    `update notifications n
     set digest_id = (select id from digests d where d.user_id = n.user_id and d.time_window = $3)
     where id in (select id from notifications where ${PENDING} and ${OF_DIGEST} and digest_at <= $2
       and user_id = any($4) for update skip locked)`,
    [due.weekly, due.now, due.window, userIds],
  );
}

/** Returns whether notifications of a kind are pending for a user because of the preference. */
export async function hasPending(db: Db, userId: string, kind: KindKey): Promise<boolean> {
  const text = `select exists (select from notifications
    where ${PENDING} and user_id = $1 and kind = $2 and frequency <> 'immediate') as pending`;
  return (await one<{ pending: boolean }>(db, "notifications_pending", text, [userId, kind]))!.pending;
}

/** Assigns to a digest the notifications of one kind that are pending because of the preference. */
export function fillWithKind(db: Db, digest: { id: string; userId: string }, kind: KindKey): Promise<number> {
  return execute(
    db,
    "digest_fill_kind",
    `update notifications set digest_id = $1
     where id in (select id from notifications where ${PENDING} and user_id = $2 and kind = $3
       and frequency <> 'immediate' for update skip locked)`,
    [digest.id, digest.userId, kind],
  );
}

/** Drops the mails of a kind that have not been sent to a user yet. */
export function dropMails(db: Db, userId: string, kind: KindKey): Promise<number> {
  return execute(
    db,
    "notifications_drop_mails",
    `update notifications set mail_state = 'dropped', mail_reason = 'switched_off', mail_at = now()
     where id in (select id from notifications where user_id = $1 and kind = $2
       and (${PENDING} or mail_state in ('queued', 'retrying')) for update skip locked)`,
    [userId, kind],
  );
}

/** Drops from a digest items that were read, that the user switched off, or whose service recovered; never forced ones. */
export function dropObsoleteItems(db: Db, digestId: string): Promise<number> {
  return execute(
    db,
    "digest_drop_obsolete",
    `update notifications n set mail_state = 'dropped', mail_at = now(), mail_reason = reason
     from (select id, case
         when read_at is not null then 'read'
         when exists (select from preferences p where p.user_id = w.user_id and p.kind = w.kind
           and p.channel in ('in_app', 'off')) then 'switched_off'
         when kind = 'deploy.unhealthy' and exists (select from incidents i
           where i.service_id = w.metadata->>'serviceId' and i.closed_at is not null) then 'healed' end as reason
       from notifications w where digest_id = $1 and mail_state = 'digest' and kind <> all($2)
       for update skip locked) obsolete
     where n.id = obsolete.id and reason is not null`,
    [digestId, FORCED],
  );
}

export type ItemRow = {
  kind: KindKey;
  accountId: string;
  title: string;
  body: string;
  metadata: Record<string, string>;
  createdAt: Timestamp;
  /** The number of notifications that the item represents. */
  count: number;
  /** The number of items in the digest. */
  total: number;
};

/** Lists the newest items of a digest. Notifications of one deploy.* kind about one service are one item, the newest. */
export function listItems(db: Db, digestId: string, limit: number): Promise<ItemRow[]> {
  return many<ItemRow>(
    db,
    "digest_items",
    `with subjects as (
       select (array_agg(id order by created_at desc, id desc))[1] as id, count(*)::int as count,
         max(created_at) as last
       from notifications where digest_id = $1 and mail_state = 'digest'
       group by kind, case when kind like 'deploy.%' then coalesce(metadata->>'serviceId', id) else id end)
     select n.kind, n.account_id as "accountId", n.title, n.body, n.metadata, n.created_at as "createdAt",
       s.count, (count(*) over ())::int as total
     from subjects s join notifications n using (id) order by s.last desc, s.id desc limit $2`,
    [digestId, limit],
  );
}

/** Records the outcome of an attempt to mail a digest. */
export function recordDigest(
  db: Db,
  mail: { id: string; state: string; attempts: number; reason: string | undefined },
): Promise<number> {
  return execute(
    db,
    "digest_record_mail",
    "update digests set mail_state = $2, mail_attempts = $3, mail_reason = $4, mail_at = now() where id = $1",
    [mail.id, mail.state, mail.attempts, mail.reason],
  );
}
