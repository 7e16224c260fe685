import type { Letter } from "../../kit/mail/layout.ts";
import type { DigestContents, DigestItem } from "./digest-contents.ts";
import type { Digest } from "./windows.ts";

/** Returns the text of a digest's mail; `digest` is undefined for items sent because the user switched to immediate. */
export function toDigestLetter(
  contents: DigestContents,
  digest: Digest | undefined,
): Pick<Letter, "subject" | "sections"> {
  const { items } = contents;
  const what = items === 1 ? "1 notification" : `${items} notifications`;
  const subject = digest ? `Your ${digest} digest: ${what}` : `Waiting notifications: ${what}`;
  return { subject, sections: sectionsOf(contents) };
}

/** Returns the text of a bundle's mail, whose items are all of one forced kind. */
export function toBundleLetter(contents: DigestContents): Pick<Letter, "subject" | "sections"> {
  const { label, items } = contents.accounts[0]!.projects[0]!.kinds[0]!;
  const { items: total } = contents;
  const subject = total === 1 ? items[0]!.title : `${label}: ${total} times within an hour`;
  return { subject, sections: sectionsOf(contents) };
}

function sectionsOf({ more, accounts }: DigestContents): Letter["sections"] {
  const left = more > 0 ? [{ items: [{ text: `And ${more} more.` }] }] : [];
  return [...accounts.flatMap(accountSections), ...left];
}

function accountSections({ handle, projects }: DigestContents["accounts"][number]): Letter["sections"] {
  return projects.flatMap(({ name, kinds }) =>
    kinds.map(({ label, items }) => ({
      heading: [handle || "Your account", name, label].filter(Boolean).join(" / "),
      items: items.map(toItem),
    })),
  );
}

function toItem({ title, body, count }: DigestItem): Letter["sections"][number]["items"][number] {
  return { title: `${title}${count > 1 ? ` (${count} times)` : ""}`, text: body };
}
