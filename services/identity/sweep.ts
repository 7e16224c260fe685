import { type Db, execute } from "../kit/postgres/db.ts";
import { deleteExpiredInvitations } from "./invitations/sql.ts";
import { sweepOauth } from "./oauth/sql.ts";
import { deleteExpiredResets } from "./passwords/sql.ts";
import { deleteExpiredAttempts } from "./sign-in/sql.ts";
import { deleteEndedSessions } from "./tokens/sql.ts";

/** Deletes what expired long enough ago that nobody needs it: sessions, attempts, invitations, resets, mails. */
export async function sweep(db: Db, now: Date): Promise<void> {
  await deleteEndedSessions(db, now);
  await deleteExpiredAttempts(db, now);
  await deleteExpiredInvitations(db, now);
  await deleteExpiredResets(db, now);
  await sweepOauth(db, now);
  await execute(db, "mails_sweep", "delete from mails where created_at < now() - interval '7 days'");
}
