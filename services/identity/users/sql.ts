// Statements on users.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, one, type Tx } from "../../kit/postgres/db.ts";

export type UserRow = { id: string; email: string; displayName: string; createdAt: Timestamp };

const USER = `id, email, display_name as "displayName", created_at as "createdAt"`;

/** Inserts a user; returns undefined when the e-mail already has one. `email` is in lower case. */
export function insertUser(
  db: Db,
  user: {
    id: string;
    email: string;
    displayName: string;
    passwordHash: string | undefined;
    verifiedAt: Date;
  },
) {
  return one<UserRow>(
    db,
    "user_insert",
    `insert into users (id, email, display_name, password_hash, email_verified_at) values ($1, $2, $3, $4, $5)
     on conflict (email) do nothing returning ${USER}`,
    [user.id, user.email, user.displayName, user.passwordHash, user.verifiedAt],
  );
}

export function findUser(db: Db, id: string) {
  return one<UserRow & { emailVerified: boolean }>(
    db,
    "user_find",
    `select ${USER}, email_verified_at is not null as "emailVerified" from users where id = $1`,
    [id],
  );
}

export function findUserByEmail(db: Db, email: string) {
  return one<UserRow & { emailVerified: boolean }>(
    db,
    "user_find_by_email",
    `select ${USER}, email_verified_at is not null as "emailVerified" from users where email = $1`,
    [email],
  );
}

/** Returns the user of an e-mail with what signing in checks. */
export function findCredentials(db: Db, email: string) {
  return one<UserRow & { passwordHash: string | null; disabled: boolean }>(
    db,
    "credentials_find",
    `select ${USER}, password_hash as "passwordHash", disabled_at is not null as disabled
     from users where email = $1`,
    [email],
  );
}

export function renameUser(db: Db, userId: string, displayName: string) {
  const text = "update users set display_name = $2 where id = $1";
  return execute(db, "user_rename", text, [userId, displayName]);
}

/** Records the first sign-in of a user. Returns false when there was one before. */
export async function markSignedIn(db: Db, userId: string, now: Date): Promise<boolean> {
  const text = "update users set signed_in_at = $2 where id = $1 and signed_in_at is null";
  return (await execute(db, "user_signed_in", text, [userId, now])) === 1;
}

/** Replaces a password that was checked. Returns 0 when it has been changed since. */
export function replacePassword(db: Db, userId: string, before: string, hash: string) {
  const text = "update users set password_hash = $3 where id = $1 and password_hash = $2";
  return execute(db, "password_replace", text, [userId, before, hash]);
}

/**
 * Sets the password of a user who proved to own the e-mail, and marks the e-mail as verified. `first` when it was not
 * verified before: until then another person may have used the user. Undefined for a disabled user.
 */
export function claimEmail(
  db: Db,
  user: { id: string; passwordHash: string; displayName?: string | undefined; now: Date },
) {
  return one<{ email: string; first: boolean }>(
    db,
    "email_claim",
    `update users u set password_hash = $2, display_name = coalesce($3, u.display_name),
       email_verified_at = coalesce(u.email_verified_at, $4)
     from (select id, email_verified_at is null as first from users where id = $1 for update) o
     where u.id = o.id and u.disabled_at is null returning u.email, o.first`,
    [user.id, user.passwordHash, user.displayName, user.now],
  );
}

/**
 * Deletes a user whose password was checked: the row stays, without personal data, and the e-mail becomes free. Returns 0
 * when the password has been changed since, or the user is already deleted.
 */
export function deleteUser(db: Db, user: { id: string; passwordHash: string; now: Date }) {
  return execute(
    db,
    "user_delete",
    `update users set email = id || '@deleted.invalid', display_name = 'Deleted user', password_hash = null,
       email_verified_at = null, disabled_at = coalesce(disabled_at, $3), deleted_at = $3
     where id = $1 and password_hash = $2 and deleted_at is null`,
    [user.id, user.passwordHash, user.now],
  );
}

/** Locks a user until the transaction ends. */
export function lockUser(tx: Tx, id: string) {
  return execute(tx, "user_lock", "select from users where id = $1 for no key update", [id]);
}
