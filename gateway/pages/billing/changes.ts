import { type Html, html } from "../../../services/kit/html.ts";
import { ApiRefusal } from "../kit/api.ts";
import { alert, day } from "../kit/layout.ts";
import { type Answer, type PageRoute, type Visit, withRefusal } from "../kit/visit.ts";
import { billingPath, inApi } from "./account.ts";
import { dollars } from "./dollars.ts";

type Charge = { kind: string; amountUsd: number; at?: string; estimated: boolean };
type Credit = { kind: string; amountUsd: number };

/** What canceling would do. An earlier version of billing names neither charges nor credits. */
type Preview = {
  accessUntil: string;
  refund?: { amountUsd: number; estimatedArrivalDays: number };
  refundUnderReview: boolean;
  charges?: Charge[];
  credits?: Credit[];
  warnings?: string[];
};

const CHARGED: Record<string, string> = {
  subscription: "the plan",
  compute: "compute that ran",
  proration: "members of the current term",
};

const CREDITED: Record<string, string> = {
  open_invoice: "is taken off the invoice that is not paid",
  renewal: "for the renewal is not charged",
  balance: "goes to the balance of the account at the payment provider",
};

/** Returns what is charged and credited, a sentence for each. */
function amountsOf({ charges, credits = [], warnings = [] }: Preview): Html[] {
  const charge = ({ kind, amountUsd, at, estimated }: Charge) =>
    html`<p>${dollars(amountUsd)} for ${CHARGED[kind] ?? "other things"} is charged ${at ? html`on ${day(at)}` : "now"}${estimated && ", or more if it keeps running"}.</p>`;
  const credit = ({ kind, amountUsd }: Credit) =>
    html`<p>${dollars(amountUsd)} ${CREDITED[kind] ?? "is credited"}.</p>`;
  return [
    ...(charges ? charges.map(charge) : [html`<p>Compute that ran until then is charged.</p>`]),
    ...credits.map(credit),
    ...warnings.map((warning) => html`<p class="warning">${warning}</p>`),
  ];
}

async function cancelPage(visit: Visit): Promise<Answer> {
  const path = billingPath(visit.params.accountId!);
  const back = html`<p><a href="${path}">Keep the plan</a></p>`;
  let preview: Preview;
  try {
    preview = await visit.call<Preview>("GET", `${inApi(visit)}/subscription/cancel-preview`);
  } catch (error) {
    if (!(error instanceof ApiRefusal) || ![404, 409].includes(error.status)) throw error;
    const content = html`<p>${error.message}</p><p><a href="${path}">See the billing of the account</a></p>`;
    return withRefusal({ title: "There is nothing to cancel", content, own: true }, error);
  }
  const { accessUntil, refund, refundUnderReview } = preview;
  const until = accessUntil === "now" ? "immediately" : html`on ${day(accessUntil)}`;
  const content = html`<p>The plan ends ${until}. After that the account is on the free plan, and the plan is not charged any longer.</p>
${refund && html`<p>${dollars(refund.amountUsd)} for the months that were not used are refunded to the card or account that paid, within ${refund.estimatedArrivalDays} days.</p>`}
${refundUnderReview && html`<p>The refund waits for a decision by the operator. You will be notified.</p>`}
${!refund && !refundUnderReview && html`<p>Nothing is refunded.</p>`}
${amountsOf(preview)}
<form method="post" action="${path}/cancel" class="narrow">${visit.mark()}<input type="hidden" name="account_id" value="${visit.params.accountId}">
<button class="danger">Cancel the plan</button></form>
${back}`;
  return { page: { title: "Cancel the plan?", content, own: true } };
}

function subscribePage(visit: Visit, sentence?: string) {
  const path = billingPath(visit.params.accountId!);
  const choice = (name: string, value: string, label: string, checked: boolean) =>
    html`<label class="choice"><input type="radio" name="${name}" value="${value}"${checked && html` checked`}> <span>${label}</span></label>`;
  const content = html`${alert(sentence)}
<form method="post" action="${path}/subscribe">${visit.mark()}<input type="hidden" name="account_id" value="${visit.params.accountId}">
<fieldset><legend>Plan</legend>${choice("tier", "pro", "pro", true)}${choice("tier", "team", "team", false)}</fieldset>
<fieldset><legend>Payment</legend>${choice("cadence", "monthly", "monthly: cancel for the end of a month", true)}${choice("cadence", "annual", "yearly: a year for the price of ten months", false)}</fieldset>
<button>Continue</button>
</form>
<p class="hint">The page of the payment provider shows the price with all members and your promo code, before you pay.</p>`;
  return { title: "Choose a plan", content, own: true };
}

/** Leads to the page by a link: browsers do not let a form lead elsewhere. */
async function openCheckout(visit: Visit): Promise<Answer> {
  const { fields } = visit;
  const choice = { tierId: fields.get("tier") ?? "", cadence: fields.get("cadence") ?? "" };
  try {
    const { checkoutUrl } = await visit.call<{ checkoutUrl: string }>(
      "POST",
      `${inApi(visit)}/subscription`,
      choice,
    );
    const content = html`<p>You pay on the page of the payment provider. It shows the price, and stays open for an hour.</p>
<p><a class="button" href="${checkoutUrl}">Go to the payment</a></p>`;
    return { page: { title: "Your order", content, own: true } };
  } catch (error) {
    if (!(error instanceof ApiRefusal) || [401, 403].includes(error.status)) throw error;
    return withRefusal(subscribePage(visit, error.message), error);
  }
}

/** Where the form of an account's page is. */
const formAt = (name: string) => (fields: URLSearchParams) =>
  `${billingPath(fields.get("account_id") ?? "")}/${name}`;

/** The pages on which owners subscribe and cancel. */
export const changePages: PageRoute[] = [
  { method: "GET", path: "/billing/:accountId/cancel", needsSession: true, handle: cancelPage },
  {
    method: "POST",
    path: "/billing/:accountId/cancel",
    needsSession: true,
    formOn: formAt("cancel"),
    async handle(visit) {
      await visit.call("DELETE", `${inApi(visit)}/subscription`);
      return { seeOther: `${billingPath(visit.params.accountId!)}?done=canceled` };
    },
  },
  {
    method: "GET",
    path: "/billing/:accountId/subscribe",
    needsSession: true,
    handle: async (visit) => ({ page: subscribePage(visit) }),
  },
  {
    method: "POST",
    path: "/billing/:accountId/subscribe",
    needsSession: true,
    formOn: formAt("subscribe"),
    handle: openCheckout,
  },
];
