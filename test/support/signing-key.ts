import { loadKeys, type SigningKey } from "../../services/identity/oauth/embedded/keys.ts";
import { createPool } from "../../services/kit/postgres/db.ts";
import { testKeys } from "../../services/kit/testing/testing.ts";

export type { SigningKey };

/** Returns the private key that signs access tokens of a test's platform, for tokens that no provider would issue. */
export async function signingKeyOf(databaseUrl: string): Promise<SigningKey> {
  const pool = createPool(databaseUrl, { max: 1 });
  const [key] = await loadKeys(pool, testKeys, Date.now());
  await pool.end();
  return key!;
}
