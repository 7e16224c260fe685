import { newId } from "../../kit/ids.ts";
import { queueMails } from "../../kit/mail/mail.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { holdBundles } from "../digests/bundles.ts";
import { deferBursts } from "../digests/bursts.ts";
import { windowAt } from "../digests/windows.ts";
import { catalogue, type Kind, type KindKey } from "../kinds/kinds.ts";
import { toPreference, toRoute } from "../preferences/preference.ts";
import { findChoices } from "../preferences/sql.ts";
import type { Recipient } from "../recipients/directory.ts";
import { isPublished } from "../webhooks/kinds.ts";
import { publish } from "../webhooks/publish.ts";
import { insertNotifications } from "./sql.ts";

/** A message to users, with its recipients. */
export type Notice = {
  kind: KindKey;
  /** Empty for what concerns only the user. */
  accountId: string;
  title: string;
  body: string;
  metadata: Record<string, string>;
  /** Identifies the notice within its kind: a user gets it once. */
  dedupe: string;
  recipients: Recipient[];
  /** The reason for not mailing it: another mail says the same. */
  notMailed?: string;
};

/** The queues of mails: a flood in one does not delay the other. */
export const MAIL_QUEUES = ["critical", "bulk"] as const;

/** Whether the installation sends mails, and the clock of digests, in milliseconds. */
type DeliveryOptions = { mails: boolean; now: () => number };

/** Writes a notice in the transaction of its event. */
export type Notify = ReturnType<typeof createNotify>;

/** Returns the function that sends notices. */
export function createNotify(options: DeliveryOptions) {
  return (tx: Tx, notice: Notice): Promise<void> => notify(tx, notice, options);
}

/**
 * Writes a notice to the feeds of its recipients and queues its mails, by each one's preferences. Skips recipients who
 * have it already. A notice to the members of an account is queued for its webhooks too.
 */
export async function notify(tx: Tx, notice: Notice, { mails, now }: DeliveryOptions): Promise<void> {
  const { kind, recipients, dedupe, accountId, title, body, metadata, notMailed } = notice;
  if (isPublished(kind)) await publish(tx, { kind, accountId, title, body, metadata, dedupe });
  const choices = await findChoices(
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
    const refused =
      wanted && (notMailed ?? (!mails ? "no_mail" : !emailVerified ? "not_verified" : undefined));
    const mail = !wanted || refused ? "none" : route.mail;
    // A forced notification is in the feed if it is not mailed.
    const visible = route.row === "visible" || (preference.forceEmail && mail === "none" && !notMailed);
    if (!visible && mail === "none") return [];
    const digestAt = mail === "daily" || mail === "weekly" ? new Date(windowAt(mail, now()).next) : undefined;
    return [{ id: newId("ntf"), userId, email, preference, visible, mail, refused, digestAt }];
  });
  if (rows.length === 0) return;
  const common = { kind, accountId, title, body, metadata, dedupeKey: `${kind}:${dedupe}` };
  const written = new Set(await insertNotifications(tx, common, rows));
  const due = rows.filter(({ id, mail }) => written.has(id) && mail === "now");
  const { forced, bundled }: Kind = catalogue[kind];
  const sent = bundled
    ? await holdBundles(tx, kind, due, now())
    : forced
      ? due
      : await deferBursts(tx, due, now());
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
