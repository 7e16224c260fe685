// Statements on passwords and on the links that set them.
import { type Db, execute, one } from "../../kit/postgres/db.ts";

/** Sets a password; 0 when it is not any more the one that was looked at. */
export function replacePassword(db: Db, userId: string, before: string, hash: string) {
  const text = "update users set password_hash = $3 where id = $1 and password_hash = $2";
  return execute(db, "password_replace", text, [userId, before, hash]);
}

/**
 * Gives an e-mail to who proved that it is his, with a password of his own. `first` when nobody had vouched for
 * it before: whoever used it until then may have been somebody else.
 */
export function proveEmail(
  db: Db,
  user: { id: string; passwordHash: string; displayName?: string | undefined; now: Date },
) {
  return one<{ email: string; first: boolean }>(
    db,
    "email_prove",
    `update users u set password_hash = $2, display_name = coalesce($3, u.display_name),
       email_verified_at = coalesce(u.email_verified_at, $4)
     from (select id, email_verified_at is null as first from users where id = $1 for update) o
     where u.id = o.id and u.disabled_at is null returning u.email, o.first`,
    [user.id, user.passwordHash, user.displayName, user.now],
  );
}

/** Ends sessions of a user, all but `except`, and personal tokens too when asked; how many. */
export function endTokens(
  db: Db,
  end: { userId: string; except: string | undefined; personalToo: boolean; now: Date },
) {
  return execute(
    db,
    "tokens_end",
    `update tokens set revoked_at = $4
     where user_id = $1 and revoked_at is null and id is distinct from $2 and (kind = 'session' or $3)
       and expires_at > $4`,
    [end.userId, end.except, end.personalToo, end.now],
  );
}

/** Keeps a link that sets a password, or makes it good for longer; 0 when it was used. */
export function keepReset(db: Db, reset: { id: string; userId: string; hash: Buffer; expiresAt: Date }) {
  return execute(
    db,
    "reset_keep",
    `insert into password_resets as r (id, user_id, token_hash, expires_at) values ($1, $2, $3, $4)
     on conflict (id) do update set token_hash = excluded.token_hash, expires_at = excluded.expires_at
     where r.used_at is null`,
    [reset.id, reset.userId, reset.hash, reset.expiresAt],
  );
}

export function resetByLink(db: Db, hash: Buffer, now: Date) {
  const text =
    "select user_id as id from password_resets where token_hash = $1 and used_at is null and expires_at > $2";
  return one<{ id: string }>(db, "reset_by_link", text, [hash, now]);
}

/** Uses a link, and with it all others of its user; undefined when it does not work any more. */
export function takeReset(db: Db, hash: Buffer, now: Date) {
  return one<{ userId: string }>(
    db,
    "reset_take",
    `with taken as (
       update password_resets set used_at = $2 where token_hash = $1 and used_at is null and expires_at > $2
       returning id, user_id
     ), others as (
       update password_resets r set used_at = $2 from taken t
       where r.user_id = t.user_id and r.id <> t.id and r.used_at is null
     )
     select user_id as "userId" from taken`,
    [hash, now],
  );
}
