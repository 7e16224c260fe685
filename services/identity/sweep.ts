import { type Db, execute, type Pool } from "../kit/postgres/db.ts";
import { deleteExpiredAttempts } from "./attempts/sql.ts";
import { revokeUnusedGrants } from "./grants/lifecycle.ts";
import { deleteExpiredInvitations } from "./invitations/sql.ts";
import { sweepClients } from "./oauth/registration/sweep-clients.ts";
import { sweepOauth } from "./oauth/sweep.ts";
import { deleteExpiredResets } from "./passwords/sql.ts";
import { deleteEndedSessions } from "./tokens/sql.ts";

type Deps = { pool: Pool; provider: Parameters<typeof sweepClients>[0]["provider"] };

/** Deletes what has expired, and ends what nobody has used for long: grants, and registrations of clients. */
export async function sweepAll({ pool, provider }: Deps, now: Date): Promise<void> {
  await sweep(pool, now);
  await revokeUnusedGrants(pool, now);
  await sweepClients({ pool, provider }, now);
}

/** Deletes what has expired and is no longer needed: sessions, attempts, invitations, resets, OAuth state, mails. */
export async function sweep(db: Db, now: Date): Promise<void> {
  await deleteEndedSessions(db, now);
  await deleteExpiredAttempts(db, now);
  await deleteExpiredInvitations(db, now);
  await deleteExpiredResets(db, now);
  await sweepOauth(db, now);
  await execute(db, "mails_sweep", "delete from mails where created_at < now() - interval '7 days'");
}
