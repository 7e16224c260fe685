import type { Letter } from "../mail/layout.ts";
import type { DigestContents, DigestItem } from "./digest-contents.ts";
import type { Digest } from "./windows.ts";

/** Returns what a digest's mail says; `digest` is absent for what had been waiting. */
export function toDigestLetter(
  contents: DigestContents,
  digest: Digest | undefined,
): Pick<Letter, "subject" | "sections"> {
  const { items, more, accounts } = contents;
  const what = items === 1 ? "1 notification" : `${items} notifications`;
  const subject = digest ? `Your ${digest} digest: ${what}` : `What was waiting: ${what}`;
  const left = more > 0 ? [{ items: [{ text: `And ${more} more.` }] }] : [];
  return { subject, sections: [...accounts.flatMap(accountSections), ...left] };
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
