import { type Html, html } from "../../../services/kit/html.ts";
import { refusalOf } from "../kit/api.ts";
import { done } from "../kit/layout.ts";
import { type Answer, type PageRoute, type Visit, withRefusal } from "../kit/visit.ts";

type Preference = { kind: string; label: string; channel: string; frequency: string };
type Unsubscription = { of: string; preferences: Preference[] };

const PATH = "/u/:token";

/** Calls the API for the link of a mail, and shows what it says; or that there is no such link. */
async function answer(
  { call, params }: Visit,
  method: "GET" | "POST",
  toPage: (found: Unsubscription) => { title: string; content: Html },
): Promise<Answer> {
  const asked = call<Unsubscription>(method, `/unsubscriptions/${encodeURIComponent(params.token!)}`);
  const refusal = await refusalOf(asked, "not_found");
  if (!refusal) return { page: toPage(await asked) };
  const content = html`<p>It may have been cut short. Open it from the mail again; nothing was changed.</p>`;
  return withRefusal({ title: "This link does not work", content }, refusal);
}

const whatOf = ({ of, preferences }: Unsubscription) =>
  of === "daily" || of === "weekly" ? `the ${of} digest` : `“${preferences[0]?.label ?? of}”`;

function askPage(found: Unsubscription, token: string) {
  const { preferences } = found;
  if (preferences.length === 0) return { title: "No such mails are sent", content: nothing() };
  const kinds = html`<ul>${preferences.map(({ label }) => html`<li>${label}</li>`)}</ul>`;
  const content = html`<p>You get mails of ${whatOf(found)}.</p>
${preferences.length > 1 && html`<p>With it, mails of these kinds end:</p>${kinds}`}
<form method="post" action="/u/${token}"><input type="hidden" name="List-Unsubscribe" value="One-Click">
<button>End these mails</button></form>
<p class="hint">What you also get in the app stays there. Mails about security, billing and deletion are always sent.</p>`;
  return { title: "End these mails?", content };
}

function donePage(found: Unsubscription) {
  const { preferences } = found;
  if (preferences.length === 0) return { title: "No such mails are sent", content: nothing() };
  const now = (channel: string) => (channel === "in_app" ? "in the app only" : "not at all");
  const content = html`${done(`You get no more mails of ${whatOf(found)}.`)}
<ul>${preferences.map(({ label, channel }) => html`<li>${label}: from now on ${now(channel)}</li>`)}</ul>
<h2>To change it back</h2>
<p>Send <code>PUT /me/notification-prefs</code> to the API, signed in, with:</p>
${preferences.map(restoring)}`;
  return { title: "These mails have ended", content };
}

function restoring({ kind, channel, frequency }: Preference): Html {
  const before = { kind, channel: channel === "in_app" ? "both" : "email", frequency };
  return html`<pre>${JSON.stringify(before)}</pre>`;
}

const nothing = () => html`<p>Nothing is left to end, and nothing was changed.</p>
<p><code>PUT /me/notification-prefs</code> of the API changes how you are told of what.</p>`;

/** The pages of the links that end mails: reading one changes nothing (docs/notifications.md#unsubscribing). */
export const unsubscribePages: PageRoute[] = [
  {
    method: "GET",
    path: PATH,
    needsSession: false,
    handle: (visit) => answer(visit, "GET", (found) => askPage(found, visit.params.token!)),
  },
  {
    method: "POST",
    path: PATH,
    needsSession: false,
    fromAnywhere: true,
    handle: (visit) => answer(visit, "POST", donePage),
  },
];
