import type { Db, Pool } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/refusals.ts";
import { attemptKey, windowKey } from "./keys.ts";
import * as sql from "./sql.ts";

/** The maximum number of attempts, mails or the like in a sliding window. */
type Limit = { max: number; seconds: number };

const WINDOW_SECONDS = 15 * 60;
/** Failed sign-ins of one e-mail from one network (docs/identity.md#sign-in-limits). */
export const PER_NETWORK: Limit = { max: 10, seconds: WINDOW_SECONDS };
/** Failed sign-ins of one e-mail from all unknown networks together. */
const PER_EMAIL: Limit = { max: 50, seconds: WINDOW_SECONDS };
const KNOWN_DAYS = 30;

/** An admitted sign-in, which its windows count as a failure until it succeeds. */
export type Attempt = { own: Buffer; shared: Buffer | undefined; at: Date };

/**
 * Admits an attempt to sign in with this e-mail, or throws 429. A network from which the e-mail signed in within
 * 30 days has only its own limit, so nobody can lock a user out by guessing.
 */
export async function admitSignIn(pool: Pool, email: string, ip: string, ms: number): Promise<Attempt> {
  const own = attemptKey(email, ip);
  const at = new Date(ms);
  await countOrRefuse(pool, own, PER_NETWORK, at, "Too many failed sign-ins. Wait, then try again.");
  if (await sql.isKnownNetwork(pool, own, at)) return { own, shared: undefined, at };
  const shared = windowKey("sign-in", email);
  try {
    await countOrRefuse(
      pool,
      shared,
      PER_EMAIL,
      at,
      "Too many failed sign-ins for this e-mail. Wait, then try again.",
    );
  } catch (error) {
    // The password was not checked, so it does not count as a failure of this network.
    await sql.uncountAttempt(pool, own, at);
    throw error;
  }
  return { own, shared, at };
}

/** Returns whether the e-mail signed in from the attempt's network within 30 days. */
export function isFromKnownNetwork({ shared }: Attempt): boolean {
  return shared === undefined;
}

/** Records that the sign-in succeeded: clears the failures of its network, which is a known one for 30 days. */
export async function completeSignIn(db: Db, attempt: Attempt): Promise<void> {
  await sql.clearAttempts(db, attempt.own);
  if (attempt.shared) await sql.uncountAttempt(db, attempt.shared, attempt.at);
  await sql.rememberNetwork(db, attempt.own, attempt.at, KNOWN_DAYS);
}

/** Makes the network of an address a known one for this e-mail, for 30 days. */
export function rememberNetworkOf(db: Db, email: string, ip: string, now: Date): Promise<number> {
  return sql.rememberNetwork(db, attemptKey(email, ip), now, KNOWN_DAYS);
}

/** Counts one attempt under a key. Returns false when its window is full. */
export async function countWithin(db: Db, key: Buffer, limit: Limit, now: Date): Promise<boolean> {
  return (await sql.countAttempt(db, { key, now, windowSeconds: limit.seconds, max: limit.max })) === 1;
}

/** Counts one attempt under a key. Throws 429 rate_limited with the seconds to wait when its window is full. */
export async function countOrRefuse(
  db: Db,
  key: Buffer,
  limit: Limit,
  now: Date,
  message: string,
): Promise<void> {
  if (await countWithin(db, key, limit, now)) return;
  const retryAfter = await sql.secondsUntilAttempt(db, { key, now, windowSeconds: limit.seconds });
  throw refuse(429, "rate_limited", message, { context: { retryAfter } });
}
