import { createHash } from "node:crypto";
import { html } from "../../../services/kit/html.ts";
import { type PageRoute, type Visit, withRefusal } from "../kit/visit.ts";
import { credentialFields, signedInUser, signIn } from "../sign-in/sign-in.ts";
import { type Client, clientCard } from "./client-card.ts";
import { challengeRefused, goOn } from "./going-on.ts";

type LoginRequest = { client: Client };
type Redirect = { redirectTo: string };

const pageOf = (challenge: string) => `/oauth/login?${new URLSearchParams({ login_challenge: challenge })}`;

/** Returns the key under which a decision is made once, however often its form is sent. */
export function onceFor(...decision: string[]): string {
  return `page-${createHash("sha256").update(JSON.stringify(decision)).digest("base64url")}`;
}

async function loginPage(visit: Visit, challenge: string, sentence?: string) {
  const { client } = await visit.call<LoginRequest>(
    "GET",
    `/oauth/login-request?${new URLSearchParams({ challenge })}`,
  );
  const me = await signedInUser(visit);
  const hidden = html`${visit.mark()}<input type="hidden" name="login_challenge" value="${challenge}">`;
  const form = (decision: string, content: ReturnType<typeof html>) =>
    html`<form method="post" action="/oauth/login">${hidden}<input type="hidden" name="decision" value="${decision}">${content}</form>`;
  const credentials = credentialFields(visit.fields.get("email") ?? "", sentence);
  const content = html`<p>An application wants to access one of your accounts. In the next step, you choose the account and the role.</p>
${clientCard(client)}
${
  me
    ? html`${form("continue", html`<button>Continue as ${me.email}</button>`)}
<details${sentence !== undefined && html` open`}><summary>Sign in as somebody else</summary>${form("sign-in", credentials)}</details>`
    : form("sign-in", credentials)
}
${form("deny", html`<button class="secondary">Cancel</button>`)}`;
  return { title: "Sign in to connect an application", content };
}

export const loginPages: PageRoute[] = [
  {
    method: "GET",
    path: "/oauth/login",
    needsSession: false,
    async handle(visit) {
      const challenge = visit.query.get("login_challenge") ?? "";
      const page = loginPage(visit, challenge);
      return page.then(
        (shown) => ({ page: shown }),
        (error) => challengeRefused(visit, error, pageOf(challenge)),
      );
    },
  },
  {
    method: "POST",
    path: "/oauth/login",
    needsSession: false,
    formOn: (fields) => pageOf(fields.get("login_challenge") ?? ""),
    async handle(visit) {
      const loginChallenge = visit.fields.get("login_challenge") ?? "";
      return answerLogin(visit, loginChallenge).catch((error) =>
        challengeRefused(visit, error, pageOf(loginChallenge)),
      );
    },
  },
];

async function answerLogin(visit: Visit, loginChallenge: string) {
  const decision = visit.fields.get("decision");
  if (decision === "deny") {
    const { redirectTo } = await visit.call<Redirect>("POST", "/oauth/login/reject", { loginChallenge });
    return goOn(redirectTo);
  }
  if (decision === "sign-in") {
    const refusal = await signIn(visit);
    if (refusal) return withRefusal(await loginPage(visit, loginChallenge, refusal.message), refusal);
  }
  const once = onceFor("login", loginChallenge);
  const path = "/oauth/login/complete";
  const { redirectTo } = await visit.call<Redirect>("POST", path, { loginChallenge }, { once });
  // The consent is for this user: another one of this browser is told so.
  const me = await signedInUser(visit).catch(() => undefined);
  if (me) visit.keepLogin(me.email);
  return goOn(redirectTo);
}
