import { randomBytes } from "node:crypto";
import { secretLinkIn, startMailbox } from "../../kit/testing/smtp-server.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startIdentity, tokenIn } from "../testing.ts";

/** The password of users who joined by a mail. */
export const FIRST_PASSWORD = "a-long-first-password";

export const someEmail = () => `${randomBytes(6).toString("hex")}@example.com`;

export type MailedIdentity = Awaited<ReturnType<typeof startMailedIdentity>>;

/** Starts an identity that sends its mails to a mailbox, with helpers for both. */
export async function startMailedIdentity() {
  const box = await startMailbox();
  const it = await startIdentity({
    SMTP_URL: box.url,
    MAIL_FROM: "berth@example.com",
    PUBLIC_ORIGIN: "https://berth.example.com",
  });

  const mailTo = (email: string, count = 1) =>
    eventually(`mail ${count} to ${email}`, async () => box.for(email)[count - 1]);

  /** The link in a mail to an e-mail. */
  const linkTo = async (email: string, count = 1) => secretLinkIn(await mailTo(email, count)).href;

  async function invite(email: string, accountId = it.accountId) {
    const { invitations } = await it.as(it.ownerToken, accountId);
    return invitations.inviteMember({ accountId, email, role: "editor" });
  }

  const joinBy = (link: string) =>
    it.visitor().invitations.joinByInvitation({ token: tokenIn(link), password: FIRST_PASSWORD });

  return {
    ...{ box, it, mailTo, linkTo, invite, joinBy },
    /** Waits until everything queued has been sent or dropped. */
    settled: () =>
      eventually("no mail waits", async () => (await it.pool.query("select 1 from mails")).rowCount === 0),
    /** Creates a user who joined by the link in a mail. */
    async person() {
      const email = someEmail();
      await invite(email);
      const { user } = await joinBy(await linkTo(email));
      await it.anonymous().signIn({ email, password: FIRST_PASSWORD });
      return { email, userId: user!.id };
    },
    askReset: (email: string) => it.visitor().passwords.requestPasswordReset({ email }),
    async stop(): Promise<void> {
      await it.stop();
      await box.stop();
    },
  };
}
