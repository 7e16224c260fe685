import { newId } from "../../kit/ids.ts";
import { queueMails } from "../../kit/mail/mail.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { catalogue, type Kind, type KindKey } from "../catalog/kinds.ts";
import { toPreference, toRoute } from "../catalog/preference.ts";
import { holdBundles } from "../digests/bundles.ts";
import { holdBursts } from "../digests/bursts.ts";
import { windowAt } from "../digests/windows.ts";
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
  /** Why no mail of it goes out, where another one says it already. */
  mailed?: string;
};

/** The queues of mails: a flood in one does not delay the other. */
export const MAIL_QUEUES = ["critical", "bulk"] as const;

/** Whether mails are sent at all, and the clock of digests, in milliseconds. */
type DeliveryOptions = { mails: boolean; now: () => number };

/** Writes a notice in the transaction of the event that it tells. */
export type Notify = ReturnType<typeof createNotify>;

/** Returns the function that tells users of notices. */
export function createNotify(options: DeliveryOptions) {
  return (tx: Tx, notice: Notice): Promise<void> => notify(tx, notice, options);
}

/**
 * Writes a notice to the feeds of its recipients and queues its mails, as each of them chose. Writes nothing to those
 * who have it already.
 */
export async function notify(tx: Tx, notice: Notice, { mails, now }: DeliveryOptions): Promise<void> {
  const { kind, recipients, dedupe, accountId, title, body, metadata, mailed } = notice;
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
    const refused = wanted && (mailed ?? (!mails ? "no_mail" : !emailVerified ? "not_verified" : undefined));
    const mail = !wanted || refused ? "none" : route.mail;
    // What has to reach its user is in the feed, if no mail goes out.
    const visible = route.row === "visible" || (preference.forceEmail && mail === "none" && !mailed);
    if (!visible && mail === "none") return [];
    const digestAt = mail === "daily" || mail === "weekly" ? new Date(windowAt(mail, now()).next) : undefined;
    return [{ id: newId("ntf"), userId, email, preference, visible, mail, refused, digestAt }];
  });
  if (rows.length === 0) return;
  const common = { kind, accountId, title, body, metadata, dedupeKey: `${kind}:${dedupe}` };
  const written = new Set(await sql.insertNotifications(tx, common, rows));
  const due = rows.filter(({ id, mail }) => written.has(id) && mail === "now");
  const { forced, bundled }: Kind = catalogue[kind];
  const sent = bundled
    ? await holdBundles(tx, kind, due, now())
    : forced
      ? due
      : await holdBursts(tx, due, now());
  await queueMails(
    tx,
    sent.map(({ id, email }) => ({
      kind: "notification",
      address: email,
      data: { notificationId: id },
      queue: forced ? "critical" : "bulk",
    })),
  );
}
