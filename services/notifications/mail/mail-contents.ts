import { type Letter, toContent } from "../../kit/mail/layout.ts";
import type { Mail, MailContent } from "../../kit/mail/mail.ts";
import type { MailOutcome } from "../../kit/mail/outcome.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { catalogue, type Kind, type KindKey } from "../catalog/kinds.ts";
import { createDigestContents } from "../digests/digest-contents.ts";
import { toBundleLetter, toDigestLetter } from "../digests/digest-letter.ts";
import { sealBundle } from "../digests/sql.ts";
import { isDigest } from "../digests/windows.ts";
import { type Directory, describeAudience } from "../notices/recipients.ts";
import { whyNoDigest, whyNotSent } from "./deliverable.ts";
import { linkOf, type Origins } from "./links.ts";
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
    const reason = await whyNotSent(deps, found, address);
    if (reason) return { reason };
    const { userId, kind, title, body } = found;
    const { forced, label }: Kind = catalogue[kind];
    const why = `It was sent to ${describeAudience(kind)}, as a mail of the kind “${label}” (${kind}).`;
    const letter = {
      subject: title,
      sections: [{ items: [{ text: body }] }],
      link: linkOf(found, deps.origins),
    };
    return forced
      ? finish(deps, { ...letter, footer: [why, "Mails of this kind are always sent."] })
      : finish(deps, { ...letter, footer: [why] }, { userId, of: kind });
  }

  async function digest({ address, data }: About): Promise<Composed> {
    if (data.bundle !== undefined) return bundle({ address, data });
    const digestId = data.digestId!;
    const found = await sql.findDigestForMail(deps.pool, digestId);
    if (!found) return undefined;
    const reason = await whyNoDigest(deps, digestId, found, address);
    if (reason) return { reason };
    const contents = await readDigest(digestId);
    if (!contents) return { reason: "empty" };
    const rhythm = data.digest && isDigest(data.digest) ? data.digest : undefined;
    // One of what was waiting holds a single kind.
    const of = rhythm ?? contents.accounts[0]!.projects[0]!.kinds[0]!.kind;
    const footer = ["It holds what you chose to be told of by mail, but not at once."];
    return finish(deps, { ...toDigestLetter(contents, rhythm), footer }, { userId: found.userId, of });
  }

  /** A digest of kinds that are forced: what came within the hour after a mail of them. */
  async function bundle({ address, data }: About): Promise<Composed> {
    const digestId = data.digestId!;
    const found = await sql.findDigestForMail(deps.pool, digestId);
    if (!found) return undefined;
    const kind = data.bundle as KindKey;
    await sealBundle(deps.pool, { userId: found.userId, kind, dueAt: new Date(data.dueAt!) });
    const reason = await whyNoDigest(deps, digestId, { ...found, kind }, address);
    if (reason) return { reason };
    const contents = await readDigest(digestId);
    if (!contents) return { reason: "empty" };
    const why = `It was sent to ${describeAudience(kind)}, and holds what came within an hour after the last one.`;
    return finish(deps, {
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

/** Returns the mail of a letter, with how to end such mails unless they are forced, and how to choose. */
function finish(
  { origins: { origin, baseUrl }, unsubscribeLinks }: Deps,
  { footer, ...letter }: Letter,
  subscription?: Subscription,
): MailContent {
  const preferences = {
    label: "How you are told of what (GET, PUT)",
    url: `${baseUrl}/me/notification-prefs`,
  };
  if (!subscription) return toContent({ ...letter, footer: [...footer, preferences] }, origin);
  const url = unsubscribeLinks.make(subscription);
  const end = { label: "No more of these mails", url };
  const content = toContent({ ...letter, footer: [...footer, end, preferences] }, origin);
  return { ...content, headers: unsubscribeHeaders(url) };
}
