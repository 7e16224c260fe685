import type { Pool } from "../../kit/postgres/db.ts";
import { invalid } from "../../kit/rpc/refusals.ts";
import { windowKey } from "../attempts/keys.ts";
import { countOrRefuse, PER_NETWORK } from "../attempts/limits.ts";
import { tokenEnded } from "../tokens/authenticate.ts";
import { findCredentials, findUser } from "../users/sql.ts";
import type { PasswordCheck } from "./passwords.ts";

/**
 * Checks the password of a signed-in user. Returns its hash, and the key under which this attempt was counted, to be
 * cleared once the confirmed change succeeds. Throws 422 wrong_password, and 429 after ten attempts in 15 minutes.
 */
export async function checkPassword(
  { pool, passwords, now }: { pool: Pool; passwords: PasswordCheck; now: () => number },
  userId: string,
  { path, password }: { path: string; password: string },
): Promise<{ key: Buffer; passwordHash: string }> {
  const key = windowKey("password", userId);
  const message = "Too many wrong passwords. Wait, then try again.";
  await countOrRefuse(pool, key, PER_NETWORK, new Date(now()), message);
  const user = await findUser(pool, userId);
  const found = user && (await findCredentials(pool, user.email));
  if (!found) throw tokenEnded();
  const matches = await passwords(found.passwordHash ?? undefined, password);
  if (!matches) throw invalid(path, "wrong_password", "This is not the current password.");
  return { key, passwordHash: found.passwordHash! };
}
