import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { KindKey } from "../catalog/kinds.ts";
import { type Choice, type Preference, toPreference, toRoute } from "../catalog/preference.ts";
import { setChoice } from "../feed/sql.ts";
import type { Directory, Recipient } from "../notices/recipients.ts";
import { queueDigests } from "./make-digests.ts";
import * as sql from "./sql.ts";

export type ChangePreference = ReturnType<typeof preferenceChange>;

/**
 * Returns the function that stores what a user chose for a kind, and returns the preference. What waits of the kind is
 * dropped when the user wants no mail of it, and sent as one mail when the user wants it at once.
 */
export function preferenceChange({ pool, directory }: { pool: Pool; directory: Directory }) {
  async function findWaiting(userId: string, kind: KindKey): Promise<Recipient | undefined> {
    if (!(await sql.hasWaiting(pool, userId, kind))) return undefined;
    const [user] = await directory.users(userId);
    return user?.emailVerified ? user : undefined;
  }

  return async (userId: string, kind: KindKey, choice: Choice): Promise<Preference> => {
    const preference = toPreference(kind, choice);
    const { mail } = toRoute(preference);
    const user = mail === "now" ? await findWaiting(userId, kind) : undefined;
    await transaction(pool, async (tx) => {
      await setChoice(tx, userId, kind, choice);
      if (mail === "none") await sql.dropMails(tx, userId, kind);
      if (user) await sendWaiting(tx, user, kind);
    });
    return preference;
  };
}

async function sendWaiting(tx: Tx, { userId, email }: Recipient, kind: KindKey): Promise<void> {
  // A digest of no window: there may be any number of these.
  const made = await sql.insertDigests(tx, [userId], `now:${newId("now")}`);
  for (const digest of made) await sql.fillWithKind(tx, digest, kind);
  await queueDigests(
    tx,
    made.map(({ id }) => ({ id, email })),
  );
}
