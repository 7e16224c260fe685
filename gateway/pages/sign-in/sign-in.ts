import { type Html, html } from "../../../services/kit/html.ts";
import { refusalOf } from "../kit/api.ts";
import { alert, done } from "../kit/layout.ts";
import { returnPath, signInAt } from "../kit/return-path.ts";
import { type Answer, type PageRoute, type Visit, withRefusal } from "../kit/visit.ts";

export type Me = {
  id: string;
  email: string;
  displayName: string;
  accounts: { id: string; handle: string; displayName: string; myRole: string }[];
};

/** Returns the user whose session the browser has; undefined when there is none, or it has ended. */
export async function signedInUser(visit: Visit): Promise<Me | undefined> {
  if (!visit.signedIn) return undefined;
  const me = visit.call<Me>("GET", "/me");
  if (await refusalOf(me, "unauthenticated")) return void visit.endSession();
  return me;
}

/** Signs in with the e-mail and password of a form. Returns the sentence that says why not, with its refusal. */
export async function signIn(visit: Visit) {
  const { fields } = visit;
  const credentials = { email: fields.get("email") ?? "", password: fields.get("password") ?? "" };
  const opened = visit.call<{ token: string; expiresAt: string }>("POST", "/sessions", credentials);
  const refusal = await refusalOf(opened, "unauthenticated", "validation_failed", "rate_limited");
  if (!refusal) await visit.startSession(await opened);
  return refusal;
}

/** Returns the fields and the button of signing in. */
export function credentialFields(email: string, sentence: string | undefined, focus = false): Html {
  return html`${alert(sentence)}
<label>E-mail <input name="email" type="email" autocomplete="username" maxlength="254" required value="${email}"${focus && html` autofocus`}></label>
<label>Password <input name="password" type="password" autocomplete="current-password" maxlength="1024" required></label>
<button>Sign in</button>`;
}

const forgotten = html`<p class="hint"><a href="/password-reset">Forgot your password?</a></p>`;

async function signInPage(visit: Visit, sentence?: string) {
  const { query, fields } = visit;
  const to = returnPath(fields.get("return_to") ?? query.get("return_to"), visit.home);
  const me = await signedInUser(visit);
  const content = html`${done(query.get("done") === "signed-out" ? "You are signed out." : undefined)}
${
  me &&
  html`<p>You are signed in as <strong>${me.email}</strong>. <a href="${to}">Continue as this user</a>, or sign in as another user.</p>`
}
<form method="post" action="/signin">
${visit.mark()}
<input type="hidden" name="return_to" value="${to}">
${credentialFields(fields.get("email") ?? "", sentence, true)}
</form>
${forgotten}`;
  return { title: "Sign in", content };
}

export const signInPages: PageRoute[] = [
  {
    method: "GET",
    path: "/signin",
    needsSession: false,
    handle: async (visit): Promise<Answer> => ({ page: await signInPage(visit) }),
  },
  {
    method: "POST",
    path: "/signin",
    needsSession: false,
    formOn: (fields) => signInAt(returnPath(fields.get("return_to"), "/profile")),
    async handle(visit) {
      const refusal = await signIn(visit);
      if (refusal) return withRefusal(await signInPage(visit, refusal.message), refusal);
      return { seeOther: returnPath(visit.fields.get("return_to"), visit.home) };
    },
  },
  {
    method: "POST",
    path: "/signout",
    needsSession: true,
    formOn: () => "/profile",
    async handle(visit) {
      await refusalOf(visit.call("DELETE", "/sessions"), "unauthenticated");
      visit.endSession();
      return { seeOther: "/signin?done=signed-out" };
    },
  },
];
