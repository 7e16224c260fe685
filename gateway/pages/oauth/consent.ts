import { refusalOf } from "../kit/api.ts";
import { type PageRoute, type Visit, withRefusal } from "../kit/visit.ts";
import type { Me } from "../sign-in/sign-in.ts";
import { type ConsentRequest, consentView } from "./consent-view.ts";
import { challengeRefused, goOn } from "./going-on.ts";
import { onceFor } from "./login.ts";

type Redirect = { redirectTo: string };

const pageOf = (challenge: string) =>
  `/oauth/consent?${new URLSearchParams({ consent_challenge: challenge })}`;

async function consentPage(visit: Visit, challenge: string, sentence?: string) {
  const [request, me] = await Promise.all([
    visit.call<ConsentRequest>("GET", `/oauth/consent-request?${new URLSearchParams({ challenge })}`),
    visit.call<Me>("GET", "/me"),
  ]);
  const chosen = {
    accountId: visit.fields.get("account_id") ?? "",
    role: visit.fields.get("role") ?? "reader",
  };
  const { apiUrl } = visit;
  const content = consentView({
    ...{ request, apiUrl, email: me.email },
    decision: { action: "/oauth/consent", name: "consent_challenge", value: challenge },
    ...{ chosen, sentence, mark: visit.mark() },
  });
  return { title: "Give an application access", content };
}

export const consentPages: PageRoute[] = [
  {
    method: "GET",
    path: "/oauth/consent",
    needsSession: true,
    async handle(visit) {
      const challenge = visit.query.get("consent_challenge") ?? "";
      const page = consentPage(visit, challenge);
      return page.then(
        (shown) => ({ page: shown }),
        (error) => challengeRefused(visit, error, pageOf(challenge)),
      );
    },
  },
  {
    method: "POST",
    path: "/oauth/consent",
    needsSession: true,
    formOn: (fields) => pageOf(fields.get("consent_challenge") ?? ""),
    async handle(visit) {
      const challenge = visit.fields.get("consent_challenge") ?? "";
      return decide(visit, challenge).catch((error) => challengeRefused(visit, error, pageOf(challenge)));
    },
  },
];

async function decide(visit: Visit, consentChallenge: string) {
  if (visit.fields.get("decision") !== "allow") {
    const { redirectTo } = await visit.call<Redirect>("POST", "/oauth/consent/reject", { consentChallenge });
    return goOn(redirectTo, "Access denied");
  }
  const accountId = visit.fields.get("account_id") ?? "";
  const role = visit.fields.get("role") ?? "";
  if (accountId === "") {
    const page = await consentPage(
      visit,
      consentChallenge,
      "Choose the account that the application gets access to.",
    );
    return { page, status: 422 };
  }
  const once = onceFor("consent", consentChallenge, accountId, role);
  const body = { consentChallenge, accountId, role };
  const given = visit.call<Redirect>("POST", "/oauth/consent/complete", body, { once });
  const refusal = await refusalOf(given, "role_not_grantable", "not_a_member", "invalid_choice");
  if (refusal) return withRefusal(await consentPage(visit, consentChallenge, refusal.message), refusal);
  return goOn((await given).redirectTo, "Access granted");
}
