// Statements on challenges: each is answered once.
import { type Db, execute, one } from "../../kit/postgres/db.ts";

/** Claims a challenge. Returns false when it was claimed before. */
export async function claimChallenge(
  db: Db,
  challenge: { hash: Buffer; verifierHash: Buffer; expiresAt: Date },
): Promise<boolean> {
  const text = `insert into oauth_challenges (hash, verifier_hash, expires_at) values ($1, $2, $3)
    on conflict (hash) do nothing`;
  const values = [challenge.hash, challenge.verifierHash, challenge.expiresAt];
  return (await execute(db, "oauth_challenge_claim", text, values)) === 1;
}

export function releaseChallenge(db: Db, hash: Buffer) {
  return execute(db, "oauth_challenge_release", "delete from oauth_challenges where hash = $1", [hash]);
}

export async function isClaimed(db: Db, hash: Buffer): Promise<boolean> {
  const text = "select from oauth_challenges where hash = $1";
  return (await one(db, "oauth_challenge_claimed", text, [hash])) !== undefined;
}

/** Returns whether this verifier was issued with the answer to the challenge. */
export async function isVerifier(db: Db, hash: Buffer, verifierHash: Buffer): Promise<boolean> {
  const text = "select from oauth_challenges where hash = $1 and verifier_hash = $2";
  return (await one(db, "oauth_challenge_verify", text, [hash, verifierHash])) !== undefined;
}

/** Deletes up to `limit` challenges that have expired. Returns how many. */
export function deleteExpiredChallenges(db: Db, now: Date, limit: number): Promise<number> {
  const text = `delete from oauth_challenges where hash = any(array(select hash from oauth_challenges
    where expires_at < $1 order by expires_at limit $2 for update skip locked))`;
  return execute(db, "oauth_challenges_sweep", text, [now, limit]);
}
