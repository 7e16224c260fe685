import { html } from "../../../services/kit/html.ts";
import { billingPath } from "../billing/account.ts";
import type { PageRoute } from "../kit/visit.ts";
import type { Me } from "../sign-in/sign-in.ts";

export const profilePages: PageRoute[] = [
  {
    method: "GET",
    path: "/profile",
    needsSession: true,
    async handle(visit) {
      const { email, displayName, accounts } = await visit.call<Me>("GET", "/me");
      const billingOf = (id: string) =>
        visit.console ? `${visit.console}/accounts/${encodeURIComponent(id)}/subscription` : billingPath(id);
      const account = ({ id, handle, displayName: name, myRole }: Me["accounts"][number]) =>
        html`<li class="item"><span><strong>${handle}</strong>${name !== handle && html` <bdi class="hint">${name}</bdi>`}</span><span>${myRole}${myRole === "owner" && html` <a href="${billingOf(id)}" aria-label="Billing of ${handle}">Billing</a>`}</span></li>`;
      const content = html`<p>${displayName !== email && html`<bdi>${displayName}</bdi>, `}<strong>${email}</strong></p>
<h2>Your accounts</h2>
${accounts.length > 0 ? html`<ul class="list">${accounts.map(account)}</ul>` : html`<p>You are not a member of any account yet. Check whether you have an <a href="/profile/invitations">invitation</a>.</p>`}
<p><a href="/docs">API reference</a></p>`;
      return { page: { title: "Your profile", content, own: true } };
    },
  },
];
