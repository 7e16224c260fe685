import type { Mail } from "../../kit/mail/mail.ts";
import type { MailOutcome } from "../../kit/mail/outcome.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { recordDigest } from "../digests/sql.ts";
import { FORCED } from "../kinds/kinds.ts";
import * as sql from "./sql.ts";
import { suppress } from "./suppressions-sql.ts";

/**
 * Records the outcome of a mail on its notification or digest. An address that the server refused permanently is
 * suppressed for 7 days; a forced notification that cannot be mailed is shown in the feed.
 */
export async function recordMail(
  tx: Tx,
  { address, data, tries }: Mail & { tries: number },
  { state, reason, refused }: MailOutcome,
): Promise<void> {
  const outcome = { state, attempts: tries, reason };
  if (refused) await suppress(tx, address);
  const undelivered = state === "failed" || reason === "suppressed";
  if (data.digestId) {
    await recordDigest(tx, { id: data.digestId, ...outcome });
    if (undelivered) await sql.showForcedOf(tx, data.digestId, FORCED);
  }
  if (!data.notificationId) return;
  await sql.recordMail(tx, { id: data.notificationId, ...outcome });
  if (undelivered) await sql.showIfForced(tx, data.notificationId, FORCED);
}
