import { html } from "../../../services/kit/html.ts";
import { askFirst, day, done } from "../kit/layout.ts";
import type { PageRoute, Visit } from "../kit/visit.ts";
import { nameOf } from "../oauth/client-card.ts";

type Grant = { clientId: string; clientName: string; accountHandle: string; role: string; grantedAt: string };

async function applicationsPage(visit: Visit) {
  const grants = await visit.call<Grant[]>("GET", "/me/mcp-grants");
  const byClient = Map.groupBy(grants, ({ clientId }) => clientId);
  const content = html`${done(visit.query.get("done") === "revoked" ? "Access revoked." : undefined)}
${
  grants.length > 0
    ? html`<p>These applications have access to your accounts. They chose their names themselves; nobody has verified them.</p>
<ul class="list">${[...byClient.values()].map((granted) => applicationItem(visit, granted))}</ul>`
    : html`<p>You have not given access to any application.</p>`
}`;
  return { title: "Connected applications", content, own: true };
}

function applicationItem(visit: Visit, granted: Grant[]) {
  const { clientId, clientName } = granted[0]!;
  const access = ({ accountHandle, role, grantedAt }: Grant) =>
    html`<small><strong>${role}</strong> of <strong>${accountHandle}</strong>, since ${day(grantedAt)}</small>`;
  const handles = granted.map(({ accountHandle }) => accountHandle).join(", ");
  const revoke = html`<form method="post" action="/connected-applications">${visit.mark()}<input type="hidden" name="client_id" value="${clientId}">
<p>The application immediately loses its access to <strong>${handles}</strong>. To get access again, it has to ask you.</p>
<button class="secondary danger" aria-label="Revoke access of ${clientName}">Revoke access</button></form>`;
  return html`<li class="item"><span><strong>${nameOf(clientName)}</strong>${granted.map(access)}<small><code>${clientId}</code></small></span>
${askFirst({ text: "Revoke…", label: `Revoke… ${clientName}` }, revoke)}</li>`;
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
