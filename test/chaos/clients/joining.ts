import { setTimeout as delay } from "node:timers/promises";
import { type Mailbox, secretLinkIn } from "../../../services/kit/testing/smtp-server.ts";
import type { Client } from "./client.ts";

const MAIL_MS = 90_000;

export type Invited = { email: string; password: string };

/**
 * Joins by the link in an invitation's mail, and signs in. Returns the user and a token, which is empty when signing in
 * failed; undefined when there was no mail in time, or it is not known whether the person joined.
 */
export async function join(client: Client, mailbox: Mailbox, { email, password }: Invited) {
  const link = await mailedLink(mailbox, email);
  if (!link) return undefined;
  const token = link.hash.slice(1);
  // Asked for again after its answer was lost, it is refused.
  const how = { token: "", allowed: [400, 403, 422] };
  const joined = await client.send("POST", "/invitations/join", { token, password }, how);
  if (joined.status !== 201) return undefined;
  const { id: userId } = (joined.body as { user: { id: string } }).user;
  const session = await client.send("POST", "/sessions", { email, password }, { token: "" });
  return { userId, token: (session.body as { token?: string } | undefined)?.token ?? "" };
}

async function mailedLink(mailbox: Mailbox, email: string): Promise<URL | undefined> {
  for (const deadline = Date.now() + MAIL_MS; Date.now() < deadline; await delay(200)) {
    const [mail] = mailbox.for(email);
    if (mail) return secretLinkIn(mail);
  }
  return undefined;
}
