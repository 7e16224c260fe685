// Statements on password resets.
import { type Db, execute, one } from "../../kit/postgres/db.ts";

/** Stores a password reset, or extends it. Returns 0 when it was used. */
export function upsertReset(db: Db, reset: { id: string; userId: string; hash: Buffer; expiresAt: Date }) {
  return execute(
    db,
    "reset_upsert",
    `insert into password_resets as r (id, user_id, token_hash, expires_at) values ($1, $2, $3, $4)
     on conflict (id) do update set token_hash = excluded.token_hash, expires_at = excluded.expires_at
     where r.used_at is null`,
    [reset.id, reset.userId, reset.hash, reset.expiresAt],
  );
}

export function findReset(db: Db, hash: Buffer, now: Date) {
  const text =
    "select user_id as id from password_resets where token_hash = $1 and used_at is null and expires_at > $2";
  return one<{ id: string }>(db, "reset_find", text, [hash, now]);
}

/** Uses a password reset, which also invalidates all others of its user. Returns undefined when it is not valid. */
export function consumeReset(db: Db, hash: Buffer, now: Date) {
  return one<{ userId: string }>(
    db,
    "reset_consume",
    `with consumed as (
       update password_resets set used_at = $2 where token_hash = $1 and used_at is null and expires_at > $2
       returning id, user_id
     ), others as (
       update password_resets r set used_at = $2 from consumed c
       where r.user_id = c.user_id and r.id <> c.id and r.used_at is null
     )
     select user_id as "userId" from consumed`,
    [hash, now],
  );
}

/** Deletes the password resets of a user. */
export function deletePasswordResets(db: Db, userId: string) {
  return execute(db, "user_delete_resets", "delete from password_resets where user_id = $1", [userId]);
}

/** Deletes password resets a day after they expired. */
export function deleteExpiredResets(db: Db, now: Date) {
  const text = "delete from password_resets where expires_at < $1::timestamptz - interval '1 day'";
  return execute(db, "resets_delete_expired", text, [now]);
}
