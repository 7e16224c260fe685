import { type Html, html } from "../../../services/kit/html.ts";

/** What a page shows. */
export type Page = {
  title: string;
  content: Html;
  /** Whether it is one of the signed-in user's own pages, which lead to each other. */
  own?: boolean;
  /** Where the browser goes on by itself. */
  goesTo?: string;
};

const OWN_PAGES = {
  "/profile": "Profile",
  "/connected-applications": "Applications",
  "/profile/invitations": "Invitations",
  "/profile/sessions": "Sessions",
  "/profile/password": "Password",
};

/** Returns a whole document; `mark` makes the hidden fields that every form carries, and `home` is where its name leads. */
export function toDocument(page: Page, path: string, visit?: { mark: () => Html; home: string }): Html {
  const refresh =
    page.goesTo !== undefined && html`<meta http-equiv="refresh" content="0;url=${page.goesTo}">`;
  return html`${documentHead(page.title, refresh)}
<body>
${page.own === true && ownHeader(path, visit)}
<main${page.own === true && html` class="wide"`}>
${page.own !== true && html`<p class="brand">Berth</p>`}
<h1>${page.title}</h1>
${page.content}
</main>
</body>
</html>
`;
}

/** Returns how every document begins, up to its body; `more` is what else its head has. */
export function documentHead(title: string, more: Html | false): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} – Berth</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/pages/pages.css">
${more}
</head>`;
}

function ownHeader(path: string, visit?: { mark: () => Html; home: string }): Html {
  const link = ([to, name]: [string, string]) =>
    html`<a href="${to}"${to === path && html` aria-current="page"`}>${name}</a>`;
  return html`<header>
<a class="brand" href="${visit?.home ?? "/profile"}">Berth</a>
<nav aria-label="Your pages">${Object.entries(OWN_PAGES).map(link)}</nav>
<form method="post" action="/signout">${visit?.mark()}<button class="quiet">Sign out</button></form>
</header>`;
}

/** Returns an error sentence that assistive technology reads out. */
export function alert(sentence: string | undefined): Html | undefined {
  return sentence === undefined ? undefined : html`<p class="error" role="alert">${sentence}</p>`;
}

/** Returns a sentence that says what was done. */
export function done(sentence: string | undefined): Html | undefined {
  return sentence === undefined ? undefined : html`<p class="done" role="status">${sentence}</p>`;
}

/**
 * Returns what looks like a button of a list, and opens a form that does what cannot be taken back: pressed once it
 * does nothing. `label` begins with `text`, and says what it is about.
 */
export function askFirst({ text, label }: { text: string; label: string }, form: Html): Html {
  return html`<details class="ask"><summary aria-label="${label}">${text}</summary>${form}</details>`;
}

const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" });
const MINUTE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });

/** Returns the day of an RFC 3339 time. */
export function day(time: string): Html {
  return html`<time datetime="${time}">${DAY.format(new Date(time))}</time>`;
}

/** Returns an RFC 3339 time to the minute. */
export function minute(time: string): Html {
  return html`<time datetime="${time}">${MINUTE.format(new Date(time))} UTC</time>`;
}
