import { type Letter, toContent } from "../../kit/mail/layout.ts";
import type { Mail, MailContent } from "../../kit/mail/mail.ts";
import type { MailOutcome } from "../../kit/mail/outcome.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { createDigestContents } from "../digests/digest-contents.ts";
import { toBundleLetter, toDigestLetter } from "../digests/digest-letter.ts";
import { closeBundle } from "../digests/sql.ts";
import { isDigest } from "../digests/windows.ts";
import { catalogue, type Kind, type KindKey } from "../kinds/kinds.ts";
import { describeAudience } from "../recipients/audience.ts";
import type { Directory } from "../recipients/directory.ts";
import { reasonNotToSend, reasonNotToSendDigest } from "./deliverable.ts";
import { linksOf, type Origins } from "./links.ts";
import * as sql from "./sql.ts";
import { type Subscription, type UnsubscribeLinks, unsubscribeHeaders } from "./unsubscribe-links.ts";

type Deps = { pool: Pool; origins: Origins; directory: Directory; unsubscribeLinks: UnsubscribeLinks };

type About = Pick<Mail, "address" | "data">;
type Composed = MailContent | Pick<MailOutcome, "reason"> | undefined;

/** Returns the function that composes mails when they are sent. */
export function createMailContents(deps: Deps) {
  const readDigest = createDigestContents(deps);

  async function notification({ address, data }: Mail): Promise<Composed> {
    const found = await sql.findForMail(deps.pool, data.notificationId!);
    if (!found) return undefined;
    if (found.mailState === "dropped") return { reason: found.mailReason };
    const reason = await reasonNotToSend(deps, found, address);
    if (reason) return { reason };
    const { userId, kind, title, body } = found;
    const { forced, label }: Kind = catalogue[kind];
    const why = `It was sent to ${describeAudience(kind)}, as a mail of the kind “${label}” (${kind}).`;
    const letter = {
      subject: title,
      sections: [{ items: [{ text: body }] }],
      links: linksOf(found, deps.origins),
    };
    return forced
      ? toMailContent(deps, { ...letter, footer: [why, "Mails of this kind are always sent."] })
      : toMailContent(deps, { ...letter, footer: [why] }, { userId, of: kind });
  }

  async function digest({ address, data }: About): Promise<Composed> {
    if (data.bundle !== undefined) return bundle({ address, data });
    const digestId = data.digestId!;
    const found = await sql.findDigestForMail(deps.pool, digestId);
    if (!found) return undefined;
    const reason = await reasonNotToSendDigest(deps, digestId, found, address);
    if (reason) return { reason };
    const contents = await readDigest(digestId);
    if (!contents) return { reason: "empty" };
    const interval = data.digest && isDigest(data.digest) ? data.digest : undefined;
    // A digest sent because the user switched to immediate holds a single kind.
    const of = interval ?? contents.accounts[0]!.projects[0]!.kinds[0]!.kind;
    const footer = ["It contains the notifications that you chose to receive by mail, but not immediately."];
    return toMailContent(
      deps,
      { ...toDigestLetter(contents, interval), footer },
      { userId: found.userId, of },
    );
  }

  /** A digest of a forced kind: the notifications within the hour after a mail of that kind. */
  async function bundle({ address, data }: About): Promise<Composed> {
    const digestId = data.digestId!;
    const found = await sql.findDigestForMail(deps.pool, digestId);
    if (!found) return undefined;
    const kind = data.bundle as KindKey;
    await closeBundle(deps.pool, { userId: found.userId, kind, dueAt: new Date(data.dueAt!) });
    const reason = await reasonNotToSendDigest(deps, digestId, { ...found, kind }, address);
    if (reason) return { reason };
    const contents = await readDigest(digestId);
    if (!contents) return { reason: "empty" };
    const why = `It was sent to ${describeAudience(kind)}, and contains everything that happened within an hour after the previous mail.`;
    return toMailContent(deps, {
      ...toBundleLetter(contents),
      footer: [why, "Mails of this kind are always sent."],
    });
  }

  const kinds: Record<string, (mail: Mail) => Promise<Composed>> = { notification, digest };
  return async (mail: Mail): Promise<Composed> => {
    const compose = kinds[mail.kind];
    if (!compose) throw new Error(`There is no mail of kind ${mail.kind}`);
    return compose(mail);
  };
}

/** Returns the mail of a letter, with links to the preferences and, unless it is forced, to unsubscribe. */
function toMailContent(
  { origins: { origin, baseUrl, console }, unsubscribeLinks }: Deps,
  { footer, ...letter }: Letter,
  subscription?: Subscription,
): MailContent {
  const label = "Change which notifications you receive";
  const preferences = {
    label: console ? label : `${label} (GET, PUT)`,
    url: `${console ?? baseUrl}/me/notification-prefs`,
  };
  if (!subscription) return toContent({ ...letter, footer: [...footer, preferences] }, origin);
  const url = unsubscribeLinks.make(subscription);
  const unsubscribe = { label: "Unsubscribe from these mails", url };
  const content = toContent({ ...letter, footer: [...footer, unsubscribe, preferences] }, origin);
  return { ...content, headers: unsubscribeHeaders(url) };
}
