import type { Mail, MailContent } from "../../kit/mail/mail.ts";
import type { MailOutcome } from "../../kit/mail/outcome.ts";
import type { Pool, Tx } from "../../kit/postgres/db.ts";
import { createDigestContents } from "../digests/digest-contents.ts";
import { toDigestMail } from "../digests/digest-mail.ts";
import { recordDigest } from "../digests/sql.ts";
import type { Directory } from "../notices/recipients.ts";
import * as sql from "./sql.ts";

/** Returns the function that composes mails when they are sent. */
export function createMailContents(deps: { pool: Pool; origin: string; directory: Directory }) {
  const { pool, origin } = deps;
  const readDigest = createDigestContents(deps);
  return async (mail: Mail): Promise<MailContent | Pick<MailOutcome, "reason"> | undefined> => {
    const { digestId, digest } = mail.data;
    if (digestId) {
      const contents = await readDigest(digestId);
      return contents ? toDigestMail(contents, digest) : { reason: "empty" };
    }
    const found = await sql.findForMail(pool, mail.data.notificationId!);
    if (!found) return undefined;
    if (found.mailState === "dropped") return { reason: found.mailReason };
    const { title, body } = found;
    return { subject: title, text: `${body}\n\n-- \nBerth at ${origin}\n` };
  };
}

/** Records on the notification what became of its mail. */
export async function recordMail(
  tx: Tx,
  { data, tries }: Mail & { tries: number },
  { state, reason }: MailOutcome,
): Promise<void> {
  const outcome = { state, attempts: tries, reason };
  if (data.digestId) await recordDigest(tx, { id: data.digestId, ...outcome });
  else await sql.recordMail(tx, { id: data.notificationId!, ...outcome });
}
