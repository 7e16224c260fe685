import { html } from "../../../services/kit/html.ts";
import { refusalOf } from "../kit/api.ts";
import { alert } from "../kit/layout.ts";
import { type Answer, type PageRoute, type Visit, withRefusal } from "../kit/visit.ts";
import type { Me } from "../sign-in/sign-in.ts";
import type { Device } from "./client-card.ts";
import { type ConsentRequest, consentView } from "./consent-view.ts";
import { onceFor } from "./login.ts";

type DeviceRequest = ConsentRequest & Device;

const PAGE = "/device";
const MAX_CODE = 64;

/** Returns the form for a code. One that a link brought is filled in: it is the user who looks and goes on. */
function codePage(code: string, sentence: string | undefined, visit: Visit) {
  const linked = code !== "" && sentence === undefined;
  const content = html`<p>A program on another device, or in a terminal, shows you a code to connect it to Berth.</p>
${linked && html`<p class="warning">This code came with a link. Continue only if <strong>your own device</strong> shows the same code, and you have just started the program yourself.</p>`}
<form method="post" action="${PAGE}">
${visit.mark()}
${alert(sentence)}
<label>Code <input name="user_code" class="user-code" value="${code}" maxlength="${String(MAX_CODE)}" required autocomplete="off" autocapitalize="characters" spellcheck="false" placeholder="XXXX-XXXX"${!linked && html` autofocus`}></label>
<button>Continue</button>
</form>`;
  return { title: "Connect a device", content };
}

async function decisionPage(visit: Visit, typed: string, sentence?: string) {
  const query = new URLSearchParams({ userCode: typed });
  const request = await visit.call<DeviceRequest>("GET", `/oauth/device-request?${query}`);
  const me = await visit.call<Me>("GET", "/me");
  const chosen = {
    accountId: visit.fields.get("account_id") ?? "",
    role: visit.fields.get("role") ?? "reader",
  };
  const content = consentView({
    ...{ request, device: request, apiUrl: visit.apiUrl, email: me.email },
    decision: { action: PAGE, name: "user_code", value: request.userCode },
    ...{ chosen, sentence, mark: visit.mark() },
  });
  return { title: "Give a device access", content };
}

/** The page of RFC 8628, section 3.3: a user enters the code, looks at who asks, and decides. */
export const devicePages: PageRoute[] = [
  {
    method: "GET",
    path: PAGE,
    needsSession: true,
    async handle(visit) {
      const code = (visit.query.get("user_code") ?? "").slice(0, MAX_CODE);
      return { page: codePage(code, undefined, visit) };
    },
  },
  {
    method: "POST",
    path: PAGE,
    needsSession: true,
    formOn: () => PAGE,
    async handle(visit) {
      const code = (visit.fields.get("user_code") ?? "").slice(0, MAX_CODE);
      const answer = visit.fields.has("decision") ? decide(visit, code) : look(visit, code);
      const refusal = await refusalOf(answer, "unknown_code", "required", "rate_limited", "subject_mismatch");
      return refusal ? withRefusal(codePage(code, refusal.message, visit), refusal) : answer;
    },
  },
];

async function look(visit: Visit, code: string): Promise<Answer> {
  return { page: await decisionPage(visit, code) };
}

async function decide(visit: Visit, userCode: string): Promise<Answer> {
  if (visit.fields.get("decision") !== "allow") {
    await visit.call("POST", "/oauth/device/reject", { userCode }, { once: onceFor("device", userCode, "") });
    return over("Access denied", "The device does not get access. You can close this page.");
  }
  const accountId = visit.fields.get("account_id") ?? "";
  const role = visit.fields.get("role") ?? "";
  if (accountId === "")
    return {
      page: await decisionPage(visit, userCode, "Choose the account that the device gets access to."),
      status: 422,
    };
  const once = onceFor("device", userCode, accountId, role);
  const given = visit.call("POST", "/oauth/device/complete", { userCode, accountId, role }, { once });
  const refusal = await refusalOf(given, "role_not_grantable", "not_a_member", "invalid_choice");
  if (refusal) return withRefusal(await decisionPage(visit, userCode, refusal.message), refusal);
  return over(
    "Access granted",
    "Go back to your device: it continues within a few seconds. You can close this page.",
  );
}

function over(title: string, sentence: string): Answer {
  const content = html`<p>${sentence}</p>
<p><a href="/connected-applications">See connected applications</a></p>`;
  return { page: { title, content } };
}
