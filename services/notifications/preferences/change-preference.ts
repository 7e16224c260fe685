import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { queueDigests } from "../digests/make-digests.ts";
import { dropMails, fillWithKind, hasPending, insertDigests } from "../digests/sql.ts";
import type { KindKey } from "../kinds/kinds.ts";
import type { Directory, Recipient } from "../recipients/directory.ts";
import { type Choice, type Preference, toPreference, toRoute } from "./preference.ts";
import { setChoice } from "./sql.ts";

export type ChangePreference = ReturnType<typeof preferenceChange>;

/**
 * Returns the function that stores a user's choice for a kind, and returns the preference. Pending notifications of the
 * kind are dropped when the user switches mail off, and sent as one mail when the user switches to immediate.
 */
export function preferenceChange({ pool, directory }: { pool: Pool; directory: Directory }) {
  async function findUserWithPending(userId: string, kind: KindKey): Promise<Recipient | undefined> {
    if (!(await hasPending(pool, userId, kind))) return undefined;
    const [user] = await directory.users(userId);
    return user?.emailVerified ? user : undefined;
  }

  return async (userId: string, kind: KindKey, choice: Choice): Promise<Preference> => {
    const preference = toPreference(kind, choice);
    const { mail } = toRoute(preference);
    const user = mail === "now" ? await findUserWithPending(userId, kind) : undefined;
    await transaction(pool, async (tx) => {
      await setChoice(tx, userId, kind, choice);
      if (mail === "none") await dropMails(tx, userId, kind);
      if (user) await sendPending(tx, user, kind);
    });
    return preference;
  };
}

async function sendPending(tx: Tx, { userId, email }: Recipient, kind: KindKey): Promise<void> {
  // A digest without a window: a user may have any number of these.
  const made = await insertDigests(tx, [userId], `now:${newId("now")}`);
  for (const digest of made) await fillWithKind(tx, digest, kind);
  await queueDigests(
    tx,
    made.map(({ id }) => ({ id, email })),
  );
}
