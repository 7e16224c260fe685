import { type Html, html } from "../../../services/kit/html.ts";
import type { CapturedMail } from "./mail-store.ts";

/** Nothing of elsewhere is loaded and no script runs, whatever a mail holds; mails have styles of their own. */
export const MAIL_POLICY =
  "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'";

/** Returns the list of mails, newest first. */
export function listPage(mails: CapturedMail[]): Html {
  if (mails.length === 0)
    return toDocument(
      "Mail",
      html`<p>No mail yet. Mail that Berth sends appears here and is not delivered.</p>`,
    );
  const rows = mails.map(
    ({ id, to, subject, date }) =>
      html`<li><a href="${id}">${subject || "(no subject)"}</a><span>to ${to}, ${date}</span></li>`,
  );
  return toDocument("Mail", html`<p>Mail that Berth sent. It was not delivered.</p><ul>${rows}</ul>`);
}

/** Returns the page of a mail: its text, whose links can be followed, and its HTML as a mail program shows it. */
export function mailPage({ to, subject, date, text, html: shown }: CapturedMail): Html {
  return toDocument(
    subject,
    html`<p><a href="./">All mail</a></p>
<p>to ${to}, ${date}</p>
${shown !== undefined && html`<iframe sandbox="" title="The mail as HTML" srcdoc="${shown}"></iframe><h2>Text</h2>`}
<p class="text">${text.split("\n").map(toLine)}</p>`,
  );
}

/** Returns a line of text, with links for its URLs. */
function toLine(line: string): Html {
  const parts = line.split(/(https?:\/\/[^\s<>"]+)/);
  return html`${parts.map((part, index) =>
    index % 2 === 1 ? html`<a href="${part}" rel="noreferrer">${part}</a>` : html`${part}`,
  )}<br>`;
}

function toDocument(title: string, content: Html): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} – Berth</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="mail.css">
</head>
<body><main><h1>${title}</h1>${content}</main></body>
</html>
`;
}
