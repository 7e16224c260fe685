import { type Db, many } from "../../kit/postgres/db.ts";
import type { KindKey } from "../kinds/kinds.ts";
import type { Preference } from "../preferences/preference.ts";

type Common = {
  kind: KindKey;
  accountId: string;
  title: string;
  body: string;
  metadata: Record<string, string>;
  dedupeKey: string;
};

type NewRow = {
  id: string;
  userId: string;
  visible: boolean;
  preference: Preference;
  mail: "now" | "daily" | "weekly" | "none";
  refused: string | false | undefined;
  /** When its digest is due. */
  digestAt: Date | undefined;
};

/** Inserts a notification for each row and returns the ids of those whose users did not have it. */
export async function insertNotifications(db: Db, common: Common, rows: NewRow[]): Promise<string[]> {
  const { kind, accountId, title, body, metadata, dedupeKey } = common;
  const states = { now: "queued", daily: "digest", weekly: "digest", none: "none" };
  const inserted = await many<{ id: string }>(
    db,
    "notifications_insert",
    `insert into notifications (id, user_id, visible, channel, frequency, overridden, mail_state, mail_reason,
       digest_at, account_id, kind, title, body, metadata, dedupe_key)
     select r.*, $10, $11, $12, $13, $14, $15
     from unnest($1::text[], $2::text[], $3::boolean[], $4::text[], $5::text[], $6::boolean[], $7::text[], $8::text[],
       $9::timestamptz[]) r
     on conflict (user_id, dedupe_key) do nothing returning id`,
    [
      rows.map(({ id }) => id),
      rows.map(({ userId }) => userId),
      rows.map(({ visible }) => visible),
      rows.map(({ preference }) => preference.channel),
      rows.map(({ preference }) => preference.frequency),
      rows.map(({ preference }) => preference.overridden),
      rows.map(({ mail }) => states[mail]),
      rows.map(({ refused }) => refused || null),
      rows.map(({ digestAt }) => digestAt ?? null),
      accountId,
      kind,
      title,
      body,
      metadata,
      dedupeKey,
    ],
  );
  return inserted.map(({ id }) => id);
}
