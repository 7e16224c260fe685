import type { MailContent } from "../../kit/mail/mail.ts";
import type { DigestContents, DigestItem } from "./digest-contents.ts";

/** Returns the mail of a digest; `digest` is daily, weekly, or absent for what had been waiting. */
export function toDigestMail(contents: DigestContents, digest: string | undefined): MailContent {
  const { items, more } = contents;
  const what = items === 1 ? "1 notification" : `${items} notifications`;
  const subject = digest ? `Your ${digest} digest: ${what}` : `What was waiting: ${what}`;
  const text = [...contents.accounts.flatMap(accountLines), more > 0 ? `And ${more} more.\n` : ""].join("\n");
  return { subject, text };
}

function accountLines({ handle, projects }: DigestContents["accounts"][number]): string[] {
  return projects.flatMap(({ name, kinds }) => [
    [handle || "Your account", name].filter(Boolean).join(" / "),
    ...kinds.flatMap(({ label, items }) => [`  ${label}`, ...items.map(itemLine)]),
    "",
  ]);
}

function itemLine({ title, body, count }: DigestItem): string {
  return `    - ${title}${count > 1 ? ` (${count} times)` : ""}\n      ${body}`;
}
