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
  const content = html`<p>The link may be incomplete. Open it from the mail again. Nothing has been changed.</p>`;
  return withRefusal({ title: "This link does not work", content }, refusal);
}

const whatOf = ({ of, preferences }: Unsubscription) =>
  of === "daily" || of === "weekly" ? `the ${of} digest` : `mail about “${preferences[0]?.label ?? of}”`;

function askPage(found: Unsubscription, { params: { token }, console }: Visit) {
  const { preferences } = found;
  if (preferences.length === 0) return { title: "You are not subscribed", content: nothing(console) };
  const kinds = html`<ul>${preferences.map(({ label }) => html`<li>${label}</li>`)}</ul>`;
  const content = html`<p>You receive ${whatOf(found)}.</p>
${preferences.length > 1 && html`<p>This link unsubscribes you from:</p>${kinds}`}
<form method="post" action="/u/${token}"><input type="hidden" name="List-Unsubscribe" value="One-Click">
<button>Unsubscribe</button></form>
<p class="hint">Notifications in the app are not affected. Mails about security, billing and deletion are always sent.</p>`;
  return { title: "Unsubscribe?", content };
}

const PREFERENCES = "/me/notification-prefs";

function donePage(found: Unsubscription, console: string | undefined) {
  const { preferences } = found;
  if (preferences.length === 0) return { title: "You are not subscribed", content: nothing(console) };
  const now = (channel: string) => (channel === "in_app" ? "in the app only" : "not at all");
  const content = html`${done(`You no longer receive ${whatOf(found)}.`)}
<ul>${preferences.map(({ label, channel }) => html`<li>${label}: now ${now(channel)}</li>`)}</ul>
${console ? html`<p><a href="${console}${PREFERENCES}">Change what you are notified of</a></p>` : undoing(preferences)}`;
  return { title: "You are unsubscribed", content };
}

const undoing = (preferences: Preference[]) => html`<h2>To undo this</h2>
<p>Call <code>PUT ${PREFERENCES}</code> of the API, signed in, with:</p>
${preferences.map(restoring)}`;

function restoring({ kind, channel, frequency }: Preference): Html {
  const before = { kind, channel: channel === "in_app" ? "both" : "email", frequency };
  return html`<pre>${JSON.stringify(before)}</pre>`;
}

const nothing = (
  console: string | undefined,
) => html`<p>You do not receive these mails, so nothing was changed.</p>
${
  console
    ? html`<p><a href="${console}${PREFERENCES}">Change what you are notified of</a></p>`
    : html`<p>To change which notifications you receive, call <code>PUT ${PREFERENCES}</code> of the API.</p>`
}`;

/** The pages of the links that end mails: reading one changes nothing (docs/notifications.md#unsubscribing). */
export const unsubscribePages: PageRoute[] = [
  {
    method: "GET",
    path: PATH,
    needsSession: false,
    handle: (visit) => answer(visit, "GET", (found) => askPage(found, visit)),
  },
  {
    method: "POST",
    path: PATH,
    needsSession: false,
    fromAnywhere: true,
    handle: (visit) => answer(visit, "POST", (found) => donePage(found, visit.console)),
  },
];
