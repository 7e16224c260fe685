import { newId } from "../../kit/ids.ts";
import { queueMail } from "../../kit/mail/mail.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import type { KindKey } from "../catalog/kinds.ts";
import { toPreference, toRoute } from "../catalog/preference.ts";
import type { Recipient } from "./recipients.ts";
import * as sql from "./sql.ts";

/** Something that users are told, with who they are. */
export type Notice = {
  kind: KindKey;
  /** Empty for what concerns a user alone. */
  accountId: string;
  title: string;
  body: string;
  metadata: Record<string, string>;
  /** What of this kind it is: the same is told to a user once. */
  dedupe: string;
  recipients: Recipient[];
};

/** The queues of mails: a flood in one does not delay the other. */
export const MAIL_QUEUES = ["critical", "bulk"] as const;

/**
 * Writes a notice to the feeds of its recipients and queues its mails, as each of them chose. Writes nothing to those
 * who have it already. `mails` is whether mails are sent at all.
 */
export async function notify(tx: Tx, notice: Notice, { mails }: { mails: boolean }): Promise<void> {
  const { kind, recipients, dedupe, accountId, title, body, metadata } = notice;
  const choices = await sql.findChoices(
    tx,
    kind,
    recipients.map(({ userId }) => userId),
  );
  const rows = recipients.flatMap((recipient) => {
    const { userId, email, emailVerified } = recipient;
    const preference = toPreference(kind, choices.get(userId));
    const route = toRoute(preference);
    if (route.row === "none") return [];
    const wanted = route.mail !== "none";
    const refused = wanted && (!mails ? "no_mail" : !emailVerified ? "not_verified" : undefined);
    const mail = !wanted || refused ? "none" : route.mail;
    if (route.row === "hidden" && mail === "none") return [];
    return [{ id: newId("ntf"), userId, email, preference, visible: route.row === "visible", mail, refused }];
  });
  if (rows.length === 0) return;
  const common = { kind, accountId, title, body, metadata, dedupeKey: `${kind}:${dedupe}` };
  const written = new Set(await sql.insertNotifications(tx, common, rows));
  for (const { id, email, mail, preference } of rows) {
    if (!written.has(id) || mail === "none") continue;
    const queue = preference.forceEmail ? "critical" : "bulk";
    if (mail === "now")
      await queueMail(tx, { kind: "notification", address: email, data: { notificationId: id }, queue });
  }
}
