import { html } from "../html.ts";
import { day, done } from "../kit/layout.ts";
import type { PageRoute, Visit } from "../kit/visit.ts";
import { nameOf } from "../oauth/client-card.ts";

type Grant = { clientId: string; clientName: string; accountHandle: string; role: string; grantedAt: string };

async function applicationsPage(visit: Visit) {
  const grants = await visit.call<Grant[]>("GET", "/me/mcp-grants");
  const byClient = Map.groupBy(grants, ({ clientId }) => clientId);
  const content = html`${done(visit.query.get("done") === "revoked" ? "Its access has ended." : undefined)}
${
  grants.length > 0
    ? html`<p>Applications that you gave access. Their names are their own; nobody checked them.</p>
<ul class="list">${[...byClient.values()].map((granted) => applicationItem(visit, granted))}</ul>`
    : html`<p>You have not given any application access.</p>`
}`;
  return { title: "Connected applications", content, own: true };
}

function applicationItem(visit: Visit, granted: Grant[]) {
  const { clientId, clientName } = granted[0]!;
  const access = ({ accountHandle, role, grantedAt }: Grant) =>
    html`<small><strong>${role}</strong> of <strong>${accountHandle}</strong>, since ${day(grantedAt)}</small>`;
  return html`<li class="item"><span><strong>${nameOf(clientName)}</strong>${granted.map(access)}<small><code>${clientId}</code></small></span>
<form method="post" action="/connected-applications">${visit.mark()}<input type="hidden" name="client_id" value="${clientId}"><button class="secondary danger" aria-label="Revoke the access of ${clientName}">Revoke</button></form></li>`;
}

export const connectedApplicationsPages: PageRoute[] = [
  {
    method: "GET",
    path: "/connected-applications",
    needsSession: true,
    handle: async (visit) => ({ page: await applicationsPage(visit) }),
  },
  {
    method: "POST",
    path: "/connected-applications",
    needsSession: true,
    formOn: () => "/connected-applications",
    async handle(visit) {
      await visit.call("DELETE", `/me/mcp-grants/${encodeURIComponent(visit.fields.get("client_id") ?? "")}`);
      return { seeOther: "/connected-applications?done=revoked" };
    },
  },
];
