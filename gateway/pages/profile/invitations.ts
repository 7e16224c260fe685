import { html } from "../../../services/kit/html.ts";
import { refusalOf } from "../kit/api.ts";
import { day, done } from "../kit/layout.ts";
import { type PageRoute, type Visit, withRefusal } from "../kit/visit.ts";
import { type List, older } from "./older.ts";

type Invitation = {
  id: string;
  accountHandle: string;
  accountName: string;
  role: string;
  invitedBy: string;
  expiresAt: string;
};

const DONE: Record<string, string> = {
  accepted: "You are now a member of the account.",
  declined: "You declined the invitation.",
};

async function invitationsPage(visit: Visit) {
  const { query } = visit;
  const { data, page } = await visit.call<List<Invitation>>("GET", `/me/invitations${older.queryOf(query)}`);
  const content = html`${done(DONE[query.get("done") ?? ""])}
${data.length > 0 ? html`<ul class="list">${data.map((invitation) => invitationItem(visit, invitation))}</ul>` : html`<p>You have no invitations.</p>`}
${older.link("/profile/invitations", page)}`;
  return { title: "Your invitations", content, own: true };
}

function invitationItem(
  visit: Visit,
  { id, accountHandle, accountName, role, invitedBy, expiresAt }: Invitation,
) {
  const named = accountName !== accountHandle && html` <bdi class="hint">${accountName}</bdi>`;
  return html`<li class="item"><span><strong>${accountHandle}</strong>${named}
<small><bdi>${invitedBy}</bdi> invites you as ${role}, until ${day(expiresAt)}</small></span>
<form method="post" action="/profile/invitations" class="row">${visit.mark()}<input type="hidden" name="invitation_id" value="${id}">
<button name="decision" value="accept" aria-label="Accept the invitation to ${accountHandle}">Accept</button>
<button name="decision" value="decline" class="secondary" aria-label="Decline the invitation to ${accountHandle}">Decline</button></form></li>`;
}

export const invitationsPages: PageRoute[] = [
  {
    method: "GET",
    path: "/profile/invitations",
    needsSession: true,
    handle: async (visit) => ({ page: await invitationsPage(visit) }),
  },
  {
    method: "POST",
    path: "/profile/invitations",
    needsSession: true,
    formOn: () => "/profile/invitations",
    async handle(visit) {
      const { fields } = visit;
      const id = fields.get("invitation_id") ?? "";
      const decision = fields.get("decision") === "accept" ? "accept" : "decline";
      const answered = visit.call("POST", `/me/invitations/${encodeURIComponent(id)}/${decision}`);
      const gone = await refusalOf(answered, "not_found");
      if (!gone)
        return { seeOther: `/profile/invitations?done=${decision === "accept" ? "accepted" : "declined"}` };
      const content = html`<p>This invitation was already answered, was withdrawn, or has expired.</p>
<p><a href="/profile/invitations">See your invitations</a></p>`;
      return withRefusal({ title: "This invitation is no longer valid", content, own: true }, gone);
    },
  },
];
