import { type Html, html } from "../../../services/kit/html.ts";
import { documentHead } from "../kit/layout.ts";

/** A page that a one-time link opens. Its script, of the same name, fills it in and sends its form. */
type LinkPage = { name: string; title: string; lead: string; fields: Html; hint: string; button: string };

const invitation: LinkPage = {
  name: "invitation",
  title: "Invitation",
  lead: "Reading the invitation…",
  fields: html`<label>E-mail <input id="email" type="email" autocomplete="username" readonly></label>
<label id="name-field">Your name <input id="name" autocomplete="name" maxlength="80"></label>
<label>Password <input id="password" type="password" autocomplete="new-password" maxlength="1024" aria-describedby="hint" required></label>`,
  hint: "",
  button: "Accept the invitation",
};

const passwordReset: LinkPage = {
  name: "password-reset",
  title: "New password",
  lead: "",
  fields: html`<label id="email-field">E-mail <input id="email" type="email" autocomplete="username" maxlength="254"></label>
<label id="password-field">New password <input id="password" type="password" autocomplete="new-password" maxlength="1024" aria-describedby="hint"></label>`,
  hint: "12 characters or more. A few words are good.",
  button: "Send",
};

/** The pages of one-time links, each at its name. */
export const LINK_PAGES = [invitation, passwordReset];

/** Returns the document of a page; its script calls the API at `prefix`. */
export function linkDocument({ name, title, lead, fields, hint, button }: LinkPage, prefix: string): Html {
  const script = html`<meta name="berth-api" content="${prefix}">
<script type="module" src="/pages/${name}.js"></script>`;
  return html`${documentHead(title, script)}
<body>
<main>
<p class="brand">Berth</p>
<h1 id="title" tabindex="-1">${title}</h1>
<p id="lead" role="status">${lead}</p>
<form id="form" novalidate hidden>
${fields}
<p class="hint" id="hint">${hint}</p>
<label class="check" id="show-field"><input id="show" type="checkbox"> Show the password</label>
<p class="error" id="error" role="alert"></p>
<button id="send" type="submit">${button}</button>
</form>
<section id="done" hidden></section>
<noscript><p>This page needs JavaScript.</p></noscript>
</main>
</body>
</html>
`;
}
