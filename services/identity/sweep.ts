import { type Db, execute } from "../kit/postgres/db.ts";
import { deleteExpiredAttempts } from "./attempts/sql.ts";
import { deleteExpiredInvitations } from "./invitations/sql.ts";
import { sweepOauth } from "./oauth/sweep.ts";
import { deleteExpiredResets } from "./passwords/sql.ts";
import { deleteEndedSessions } from "./tokens/sql.ts";

/** Deletes what has expired and is no longer needed: sessions, attempts, invitations, resets, OAuth state, mails. */
export async function sweep(db: Db, now: Date): Promise<void> {
  await deleteEndedSessions(db, now);
  await deleteExpiredAttempts(db, now);
  await deleteExpiredInvitations(db, now);
  await deleteExpiredResets(db, now);
  await sweepOauth(db, now);
  await execute(db, "mails_sweep", "delete from mails where created_at < now() - interval '7 days'");
}
