// Statements on windows of attempts, and on networks from which users signed in.
import { type Db, execute, one } from "../../kit/postgres/db.ts";

/**
 * Counts one failure under a key. Returns 0 when its window is full. Failures are counted before the password is checked
 * and uncounted on success, so that parallel guesses cannot exceed the limit.
 */
export function countAttempt(
  db: Db,
  attempt: { key: Buffer; now: Date; windowSeconds: number; max: number },
) {
  const recent = "from unnest(a.failed_at) t where t > $2::timestamptz - make_interval(secs => $3)";
  return execute(
    db,
    "attempt_count",
    `insert into sign_in_attempts as a (key, failed_at, expires_at)
     values ($1, array[$2::timestamptz], $2::timestamptz + make_interval(secs => $3))
     on conflict (key) do update
     set failed_at = array(select t ${recent}) || $2::timestamptz, expires_at = excluded.expires_at
     where (select count(*) ${recent}) < $4`,
    [attempt.key, attempt.now, attempt.windowSeconds, attempt.max],
  );
}

/** Returns the seconds until a full window has room for another attempt, at least 1. */
export async function secondsUntilAttempt(
  db: Db,
  attempt: { key: Buffer; now: Date; windowSeconds: number },
): Promise<number> {
  const row = await one<{ seconds: number }>(
    db,
    "attempt_wait",
    `select ceil(extract(epoch from min(t) - $2::timestamptz) + $3)::int as seconds
     from sign_in_attempts a, unnest(a.failed_at) t
     where a.key = $1 and t > $2::timestamptz - make_interval(secs => $3)`,
    [attempt.key, attempt.now, attempt.windowSeconds],
  );
  return Math.max(row?.seconds ?? 1, 1);
}

export function clearAttempts(db: Db, key: Buffer) {
  return execute(db, "attempts_clear", "delete from sign_in_attempts where key = $1", [key]);
}

/** Removes one attempt of this time from the window. */
export function uncountAttempt(db: Db, key: Buffer, at: Date) {
  return execute(
    db,
    "attempt_uncount",
    `update sign_in_attempts
     set failed_at = failed_at[:array_position(failed_at, $2) - 1] || failed_at[array_position(failed_at, $2) + 1:]
     where key = $1 and $2::timestamptz = any(failed_at)`,
    [key, at],
  );
}

/** Returns whether this is a known network: the user signed in from it within 30 days. */
export async function isKnownNetwork(db: Db, key: Buffer, now: Date): Promise<boolean> {
  const text = "select from known_networks where key = $1 and expires_at > $2";
  return (await execute(db, "network_known", text, [key, now])) === 1;
}

export function rememberNetwork(db: Db, key: Buffer, now: Date, days: number) {
  return execute(
    db,
    "network_remember",
    `insert into known_networks (key, expires_at) values ($1, $2::timestamptz + make_interval(days => $3))
     on conflict (key) do update set expires_at = excluded.expires_at`,
    [key, now, days],
  );
}

/** Deletes attempts whose window has passed, and networks that are no longer known. */
export async function deleteExpiredAttempts(db: Db, now: Date): Promise<void> {
  await execute(db, "attempts_delete_expired", "delete from sign_in_attempts where expires_at < $1", [now]);
  await execute(db, "networks_delete_expired", "delete from known_networks where expires_at < $1", [now]);
}
