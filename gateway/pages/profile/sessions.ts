import { html } from "../../../services/kit/html.ts";
import { refusalOf } from "../kit/api.ts";
import { askFirst, done, minute } from "../kit/layout.ts";
import type { PageRoute, Visit } from "../kit/visit.ts";
import { type List, older } from "./older.ts";

type Session = { id: string; current: boolean; ip?: string; createdAt: string; lastUsedAt: string };

async function sessionsPage(visit: Visit) {
  const { query } = visit;
  const { data, page } = await visit.call<List<Session>>("GET", `/me/sessions${older.queryOf(query)}`);
  const content = html`${done(query.get("done") === "ended" ? "The session has ended." : undefined)}
<p>These are all places where you are signed in. If you do not recognise a session, end it and <a href="/profile/password">change your password</a>.</p>
<ul class="list">${data.map((session) => sessionItem(visit, session))}</ul>
${older.link("/profile/sessions", page)}`;
  return { title: "Your sessions", content, own: true };
}

function sessionItem(visit: Visit, { id, current, ip, createdAt, lastUsedAt }: Session) {
  const from = ip ?? "Unknown address";
  const end = html`<form method="post" action="/profile/sessions">${visit.mark()}<input type="hidden" name="session_id" value="${id}">
<p>Whoever uses this session has to sign in again.</p>
<button class="secondary danger" aria-label="End session: ${from}">End session</button></form>`;
  return html`<li class="item"><span><strong>${from}</strong>${current && html` <span class="badge">this one</span>`}
<small>Signed in ${minute(createdAt)}, last used ${minute(lastUsedAt)}</small></span>${!current && askFirst({ text: "End…", label: `End… ${from}` }, end)}</li>`;
}

export const sessionsPages: PageRoute[] = [
  {
    method: "GET",
    path: "/profile/sessions",
    needsSession: true,
    handle: async (visit) => ({ page: await sessionsPage(visit) }),
  },
  {
    method: "POST",
    path: "/profile/sessions",
    needsSession: true,
    formOn: () => "/profile/sessions",
    async handle(visit) {
      const id = visit.fields.get("session_id") ?? "";
      // One that is not there has ended, which is what was asked for.
      await refusalOf(visit.call("DELETE", `/me/sessions/${encodeURIComponent(id)}`), "not_found");
      return { seeOther: "/profile/sessions?done=ended" };
    },
  },
];
