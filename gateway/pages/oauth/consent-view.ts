import { type Html, html } from "../../../services/kit/html.ts";
import { alert } from "../kit/layout.ts";
import { signInAt } from "../kit/return-path.ts";
import { type Client, clientCard, type Device } from "./client-card.ts";

type Account = { id: string; handle: string; displayName: string; myRole: string; grantableRoles: string[] };

export type ConsentRequest = {
  client: Client;
  requestedScope: string[];
  requestedAudience: string[];
  accounts: Account[];
};

/** Where the decision goes: the form's page, and the field that names the request. */
export type Decision = { action: string; name: string; value: string };

type Consent = {
  request: ConsentRequest;
  decision: Decision;
  /** The device that asks, unless it is the browser. */
  device?: Device;
  /** The base URL of this origin's API. */
  apiUrl: string;
  email: string;
  /** What the form had, when it is shown again. */
  chosen: { accountId: string; role: string };
  sentence: string | undefined;
  mark: Html;
};

/** More accounts than this are a list to open. */
const MAX_RADIOS = 6;

const ROLES: Record<string, { name: string; may: string }> = {
  reader: {
    name: "Reader",
    may: "Can see everything in the account, including logs and the values of variables. Cannot change anything.",
  },
  editor: {
    name: "Editor",
    may: "Can also deploy, and create, change and delete projects, services and variables.",
  },
};

/** Returns the form with which a user gives a client access, or denies it. */
export function consentView(consent: Consent): Html {
  const { request, decision, device, apiUrl, email, chosen, sentence, mark } = consent;
  const { client, requestedScope: scopes, requestedAudience, accounts } = request;
  const own = [apiUrl, new URL("/mcp", apiUrl).href].map(withoutSlash);
  const otherApis = requestedAudience.filter((url) => !own.includes(withoutSlash(url)));
  const hidden = html`${mark}<input type="hidden" name="${decision.name}" value="${decision.value}">`;
  return html`${clientCard(client, { scopes, otherApis }, device)}
<form method="post" action="${decision.action}" class="consent">
${hidden}
${accounts.length === 0 ? noAccounts : choices(accounts, chosen, sentence)}
<button name="decision" value="deny" class="secondary" formnovalidate>Deny</button>
</form>
<p class="hint">You are signed in as <strong>${email}</strong>. Not you? ${device ? codeAgain(decision.action) : startAgain}.</p>`;
}

const startAgain = html`Deny, <a href="/signin">sign in as yourself</a>, and start again in the application`;

const codeAgain = (page: string) =>
  html`<a href="${signInAt(page)}">Sign in as yourself</a>, and enter the code again`;

// Applications differ in the slash at the end.
const withoutSlash = (url: string) => url.replace(/\/$/, "");

const noAccounts = html`<p>You are not a member of any account, so there is nothing to give access to. Check whether you have an <a href="/profile/invitations">invitation</a>.</p>`;

function choices(accounts: Account[], chosen: Consent["chosen"], sentence: string | undefined): Html {
  const accountId = accounts.length === 1 ? accounts[0]!.id : chosen.accountId;
  const grantable = Object.keys(ROLES).filter((role) =>
    accounts.some(({ grantableRoles }) => grantableRoles.includes(role)),
  );
  const role = grantable.includes(chosen.role) ? chosen.role : "reader";
  return html`${alert(sentence)}
<fieldset><legend>Which account?</legend>
${accounts.length > MAX_RADIOS ? accountList(accounts, accountId) : accounts.map((account) => accountRadio(account, accountId))}
</fieldset>
<fieldset><legend>Which role?</legend>
${grantable.map((one) => roleRadio(one, role))}
<p class="hint only-reader">You are a reader of this account, so you can only give this role.</p>
</fieldset>
<p class="hint">The application cannot access members, tokens or billing. You can revoke its access at any time under Connected applications.</p>
<button name="decision" value="allow">Allow access</button>`;
}

function accountRadio(account: Account, chosen: string): Html {
  const { id, handle, displayName, myRole } = account;
  return html`<label class="choice"><input type="radio" name="account_id" value="${id}" required${onlyReader(account)}${id === chosen && html` checked`}>
<span><strong>${handle}</strong>${displayName !== handle && html` <bdi class="hint">${displayName}</bdi>`}<small>Your role: ${myRole}</small></span></label>`;
}

function accountList(accounts: Account[], chosen: string): Html {
  const option = (account: Account) =>
    html`<option value="${account.id}"${onlyReader(account)}${account.id === chosen && html` selected`}>${account.handle} (your role: ${account.myRole})</option>`;
  return html`<label>Account <select name="account_id" required><option value="">Choose one of ${accounts.length}</option>${accounts.map(option)}</select></label>`;
}

// The style sheet hides the other role while such an account is chosen.
function onlyReader({ grantableRoles }: Account): Html | false {
  return !grantableRoles.includes("editor") && html` data-only="reader"`;
}

function roleRadio(role: string, chosen: string): Html {
  const { name, may } = ROLES[role]!;
  return html`<label class="choice ${role}"><input type="radio" name="role" value="${role}" required${role === chosen && html` checked`}>
<span><strong>${name}</strong><small>${may}</small></span></label>`;
}
