import type { Mail, MailContent, MailOutcome } from "../../kit/mail/mail.ts";
import type { Pool, Tx } from "../../kit/postgres/db.ts";
import * as sql from "./sql.ts";

/** Returns the function that composes mails when they are sent. */
export function createMailContents({ pool, origin }: { pool: Pool; origin: string }) {
  return async (mail: Mail): Promise<MailContent | { reason: string } | undefined> => {
    const found = await sql.findForMail(pool, mail.data.notificationId!);
    if (!found) return undefined;
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
  await sql.recordMail(tx, { id: data.notificationId!, state, attempts: tries, reason });
}
