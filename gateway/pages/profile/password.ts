import { html } from "../../../services/kit/html.ts";
import { refusalOf } from "../kit/api.ts";
import { alert, done } from "../kit/layout.ts";
import { type PageRoute, type Visit, withRefusal } from "../kit/visit.ts";
import type { Me } from "../sign-in/sign-in.ts";

async function passwordPage(visit: Visit, sentence?: string) {
  const { email } = await visit.call<Me>("GET", "/me");
  const content = html`${done(visit.query.get("done") === "changed" ? "Your password has been changed. All other sessions have ended." : undefined)}
<form method="post" action="/profile/password" class="narrow">
${visit.mark()}
${alert(sentence)}
<label>E-mail <input type="email" autocomplete="username" readonly value="${email}"></label>
<label>Current password <input name="current" type="password" autocomplete="current-password" maxlength="1024" required></label>
<label>New password <input name="new" type="password" autocomplete="new-password" maxlength="1024" required aria-describedby="hint"></label>
<p class="hint" id="hint">12 characters or more. A few words are good.</p>
<button>Change the password</button>
</form>
<p class="hint">This ends all your other sessions. Personal tokens and connected applications keep working.</p>`;
  return { title: "Change your password", content, own: true };
}

export const passwordPages: PageRoute[] = [
  {
    method: "GET",
    path: "/profile/password",
    needsSession: true,
    handle: async (visit) => ({ page: await passwordPage(visit) }),
  },
  {
    method: "POST",
    path: "/profile/password",
    needsSession: true,
    formOn: () => "/profile/password",
    async handle(visit) {
      const { fields } = visit;
      const change = { current: fields.get("current") ?? "", new: fields.get("new") ?? "" };
      const changed = visit.call("PUT", "/me/password", change);
      const refusal = await refusalOf(changed, "validation_failed", "rate_limited", "conflict");
      if (refusal) return withRefusal(await passwordPage(visit, refusal.message), refusal);
      return { seeOther: "/profile/password?done=changed" };
    },
  },
];
