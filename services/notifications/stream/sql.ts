import { type Db, many, one } from "../../kit/postgres/db.ts";

/** A place in the feeds by time, in microseconds since 1970. */
export type Mark = number;

export type Arrival = { id: string; kind: string; at: Mark };

const MICROSECONDS = (time: string) => `(extract(epoch from ${time}) * 1000000)::bigint`;

/**
 * Returns the time before which nothing new can appear in a feed: every transaction of this role that began earlier has
 * ended, and what it wrote is seen by the statements that follow.
 */
export async function findMark(db: Db): Promise<Mark> {
  const row = await one<{ mark: Mark }>(
    db,
    "feed_mark",
    `select ${MICROSECONDS("least(statement_timestamp(), min(xact_start))")} as mark from pg_stat_activity
     where datname = current_database() and usename = current_user and pid <> pg_backend_pid()`,
  );
  return row!.mark;
}

/** Lists what is in a user's feed from a time on and after a notification of that time, oldest first. */
export function listArrivals(db: Db, userId: string, after: Pick<Arrival, "at" | "id">, limit: number) {
  return many<Arrival>(
    db,
    "feed_arrivals",
    `select id, kind, ${MICROSECONDS("created_at")} as at from notifications
     where user_id = $1 and visible
       and (created_at, id) > (to_timestamp(0) + $2::bigint * interval '1 microsecond', $3)
     order by created_at, id limit $4`,
    [userId, after.at, after.id, limit],
  );
}
