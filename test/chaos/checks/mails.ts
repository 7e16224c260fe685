import type { Received } from "../../../services/kit/testing/smtp-server.ts";
import type { Check, Checking } from "./checking.ts";

/** A mail comes twice only when what was to record it broke off, or the connection did (docs/notifications.md#mail). */
const RECORDED_MS = 2_000;
const EXCUSES = /^(identity|notifications|postgres|launcher)$|^(identity|notifications) to (postgres|mail)$/;

export const oneMail: Check = {
  name: "one mail for each delivery",
  find: (checking) => checking.until(() => look(checking)),
};

const idOf = ({ headers }: Received) => headers.get("message-id") ?? "";

async function look(checking: Checking): Promise<string[]> {
  const { mailbox, faults } = checking;
  await hasten(checking);
  const doubled = [...Map.groupBy(mailbox.received, idOf)].filter(([, [first, ...others]]) => {
    const during = faults.subjects(first!.at - RECORDED_MS, first!.at + RECORDED_MS);
    return others.length > 0 && !during.some((subject) => EXCUSES.test(subject));
  });
  return [
    ...doubled.map(([id, all]) => {
      const [{ at: first, headers }, ...others] = all as [Received, ...Received[]];
      const after = others.map(({ at }) => `${at - first} ms`).join(", ");
      const about = [...new Set(faults.subjects(first - 60_000, first + 10_000))].join(", ");
      const when = new Date(first).toISOString();
      return `${id} came again after ${after}: ${headers.get("subject")}, at ${when}; faults around it: ${about}`;
    }),
    ...missing(checking),
  ];
}

/** Invitations, and tokens that their user is told of, have a mail each, by its Message-ID. */
function missing({ mailbox, record, shared }: Checking): string[] {
  const exceptions: string[] = [];
  const expectOne = (mails: Received[], what: string, least = 1) => {
    const count = new Set(mails.map(idOf)).size;
    if (count < least || count > 1) exceptions.push(`${what}: ${count} mails`);
  };
  for (const email of record.invited) {
    const invitations = mailbox.for(email).filter(({ text }) => /#inv|invitation/i.test(text));
    expectOne(invitations, `the invitation of ${email}`);
  }
  for (const reader of shared.readers) {
    const bySubject = Map.groupBy(mailbox.for(reader.email), ({ headers }) => headers.get("subject") ?? "");
    for (const { userId, name, revoked, certain } of record.told) {
      if (userId !== reader.userId) continue;
      expectOne(bySubject.get(`API token created: ${name}`) ?? [], `the creation of token ${name}`);
      if (revoked)
        expectOne(
          bySubject.get(`API token revoked: ${name}`) ?? [],
          `the end of token ${name}`,
          certain ? 1 : 0,
        );
    }
  }
  return exceptions;
}

/** Has mails tried again at once that wait after a failure, but not those taken within 100 s: they may be under way. */
async function hasten({ rows }: Checking): Promise<void> {
  for (const schema of ["identity", "notifications"])
    await rows(`update ${schema}.mails set due_at = now()
      where due_at > now() and due_at not between now() + interval '80 s' and now() + interval '190 s'`);
}
