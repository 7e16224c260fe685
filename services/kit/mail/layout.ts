import { type Html, html } from "../html.ts";
import type { MailContent } from "./mail.ts";

export type Link = { label: string; url: string };

/** What a mail says. Its texts may hold what anybody chose, such as names: none becomes markup. */
export type Letter = {
  subject: string;
  sections: { heading?: string; items: { title?: string; text: string }[] }[];
  /** Where to see more of it. */
  links?: Link[];
  /** Why it came, and how to have fewer. */
  footer: (string | Link)[];
};

/** Returns a letter as text and as HTML that loads nothing, and is dark where the reader's program is. */
export function toContent(letter: Letter, origin: string): MailContent {
  return { subject: letter.subject, text: toText(letter, origin), html: toHtml(letter, origin).text };
}

function toText({ sections, links = [], footer }: Letter, origin: string): string {
  const lines = sections.flatMap(({ heading, items }) => [
    ...(heading ? [heading, ""] : []),
    ...items.flatMap(({ title, text }) => (title ? [`- ${title}`, indented(text), ""] : [text, ""])),
  ]);
  const linked = (one: string | Link) => (typeof one === "string" ? one : `${one.label}: ${one.url}`);
  const more = links.length > 0 ? [...links.map(linked), ""] : [];
  return [...lines, ...more, "-- ", `Berth at ${origin}`, ...footer.map(linked), ""].join("\n");
}

const indented = (text: string) => text.replaceAll(/^/gm, "  ");

function toHtml({ subject, sections, links = [], footer }: Letter, origin: string): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${subject}</title>
<style>
:root { color-scheme: light dark; }
body { background: #f6f7f9; color: #1b2430; font: 16px/1.5 system-ui, sans-serif; margin: 0; padding: 16px; }
main { background: #ffffff; border-radius: 12px; margin: 0 auto; max-width: 560px; padding: 24px; }
h1 { font-size: 22px; line-height: 1.25; margin: 4px 0 12px; }
h2 { font-size: 17px; margin: 24px 0 8px; }
h1, h2, p, li { overflow-wrap: anywhere; }
ul { margin: 0; padding-left: 20px; }
li p { margin: 0 0 12px; }
a { color: #0b5cad; }
.brand, footer { color: #55626f; }
.brand { font-weight: 600; margin: 0; }
footer { font-size: 14px; margin: 16px auto 0; max-width: 560px; padding: 0 24px; }
@media (prefers-color-scheme: dark) {
body { background: #10151c; color: #dfe6ee; }
main { background: #161d26; }
a { color: #6ab0f8; }
.brand, footer { color: #a3b0bf; }
}
</style>
</head>
<body>
<main>
<p class="brand">Berth</p>
<h1>${subject}</h1>
${sections.map(sectionHtml)}
${links.map((link) => html`<p>${anchor(link)}</p>\n`)}
</main>
<footer>
<p>Berth at ${origin}</p>
${footer.map((one) => html`<p>${typeof one === "string" ? one : anchor(one)}</p>\n`)}
</footer>
</body>
</html>
`;
}

function sectionHtml({ heading, items }: Letter["sections"][number]): Html {
  const [plain, titled] = [items.filter(({ title }) => !title), items.filter(({ title }) => title)];
  const entry = ({ title, text }: (typeof items)[number]) =>
    html`<li><strong>${title}</strong>${paragraphs(text)}</li>\n`;
  return html`${heading && html`<h2>${heading}</h2>\n`}${plain.map(({ text }) => paragraphs(text))}
${titled.length > 0 && html`<ul>${titled.map(entry)}</ul>`}`;
}

const paragraphs = (text: string) => text.split("\n").map((line) => html`<p>${line}</p>\n`);

// Only a URL whose scheme is the web's becomes a link.
function anchor({ label, url }: Link): Html {
  return /^https?:\/\//.test(url) ? html`<a href="${url}">${label}</a>` : html`${label}: ${url}`;
}
