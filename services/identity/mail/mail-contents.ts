import { timestampDate } from "@bufbuild/protobuf/wkt";
import { toContent } from "../../kit/mail/layout.ts";
import { type Mail, type MailContent, oneLine } from "../../kit/mail/mail.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { findInvitationForMail } from "../invitations/sql.ts";
import { invitationSeed, type Links } from "../links/links.ts";
import { upsertReset } from "../passwords/sql.ts";
import { findCredentials } from "../users/sql.ts";

const RESET_SECONDS = 3600;

type Deps = { pool: Pool; links: Links; now: () => number };

/** Returns the function that composes identity's mails when they are sent. */
export function createMailContents(deps: Deps): (mail: Mail) => Promise<MailContent | undefined> {
  return async (mail) => {
    if (mail.kind === "invitation") return invitation(deps, mail);
    if (mail.kind === "password_reset") return passwordReset(deps, mail);
    throw new Error(`There is no mail of kind ${mail.kind}`);
  };
}

// Names the account by its handle: a display name could be made to look like a link.
async function invitation({ pool, links, now }: Deps, mail: Mail): Promise<MailContent | undefined> {
  const id = mail.data.invitationId!;
  const found = await findInvitationForMail(pool, id, new Date(now()));
  const link = found && links.find("inv", invitationSeed(id, found.nonce), found.hash);
  if (!link) return undefined;
  const { handle, role, invitedBy, expiresAt } = found;
  const inviter = oneLine(invitedBy);
  const invites = `${inviter} invites you to the account ${handle} at ${links.origin}, as ${role}.`;
  const until = minute(timestampDate(expiresAt));
  return toContent(
    {
      subject: `Invitation to the account ${handle}`,
      sections: [
        { items: [{ text: invites }, { text: `To accept, open this link. It works once, until ${until}.` }] },
      ],
      links: [{ label: "Accept the invitation", url: link }],
      footer: ["If you did not expect this invitation, ignore this mail: nothing will happen."],
    },
    links.origin,
  );
}

// Nothing is sent to an e-mail without a user, and the answer to the request is the same.
async function passwordReset({ pool, links, now }: Deps, mail: Mail): Promise<MailContent | undefined> {
  if (mail.ageSeconds > RESET_SECONDS) return undefined;
  const user = await findCredentials(pool, mail.address);
  if (!user || user.disabled) return undefined;
  const { url, hash } = links.make("rst", mail.id);
  const expiresAt = new Date(now() + RESET_SECONDS * 1000);
  if ((await upsertReset(pool, { id: mail.id, userId: user.id, hash, expiresAt })) === 0) return undefined;
  const asked = `Someone asked to set a new password for ${mail.address} at ${links.origin}.`;
  const until = minute(expiresAt);
  const how = `To set one, open this link. It works once, until ${until}, and ends all your sessions.`;
  return toContent(
    {
      subject: "Set a new password",
      sections: [{ items: [{ text: asked }, { text: how }] }],
      links: [{ label: "Set a new password", url }],
      footer: ["If this was not you, ignore this mail: your password stays as it is."],
    },
    links.origin,
  );
}

const minute = (time: Date) => `${time.toISOString().slice(0, 16).replace("T", " ")} UTC`;
