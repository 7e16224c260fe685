import { type Html, html } from "../../../services/kit/html.ts";
import { ApiRefusal } from "../kit/api.ts";
import { alert, day } from "../kit/layout.ts";
import { type Answer, type PageRoute, type Visit, withRefusal } from "../kit/visit.ts";
import { billingPath, inApi, readSubscription, type Subscription } from "./account.ts";
import { dollars } from "./dollars.ts";

type Line = { kind: string; tier: string; quantity: number; amountUsd: number; description: string };

/** What a change charges, and what it costs from then on. */
type Preview = {
  effect: "now" | "period_end" | "none";
  tierId: string;
  cadence: "monthly" | "annual";
  effectiveAt: string;
  asOf: string;
  lines: Line[];
  discountUsd: number;
  taxUsd: number;
  balanceUsd: number;
  totalUsd: number;
  renewsAt: string;
  renewalUsd: number;
  creditUsd: number;
  warnings: string[];
};

const CHOICES = [
  { tierId: "pro", cadence: "monthly", label: "pro, paid monthly" },
  { tierId: "pro", cadence: "annual", label: "pro, paid yearly" },
  { tierId: "team", cadence: "monthly", label: "team, paid monthly" },
  { tierId: "team", cadence: "annual", label: "team, paid yearly" },
] as const;

const isPresent = ({ items, cadence }: Subscription, choice: (typeof CHOICES)[number]) =>
  cadence === choice.cadence && items.find(({ kind }) => kind === "plan")?.ref === choice.tierId;

function back(visit: Visit): Html {
  return html`<p><a href="${billingPath(visit.params.accountId!)}">See the billing of the account</a></p>`;
}

/** Shows the plans to choose from, and then what the chosen one charges. */
async function changePage(visit: Visit): Promise<Answer> {
  const { query, params } = visit;
  const path = billingPath(params.accountId!);
  const subscription = await readSubscription(visit);
  if (!subscription)
    return { page: { title: "There is no plan to change", content: back(visit), own: true }, status: 404 };
  const chosen = CHOICES.find(({ label }) => label === query.get("plan"));
  if (chosen) return previewPage(visit, chosen);
  const choice = (one: (typeof CHOICES)[number]) => {
    const present = isPresent(subscription, one);
    return html`<label class="choice"><input type="radio" name="plan" value="${one.label}"${present && html` checked`}> <span>${one.label}${present && ": the present plan"}</span></label>`;
  };
  const content = html`<p>A larger plan begins immediately, and you pay the difference for the rest of the period. A smaller plan, and another way of paying, begin when the period that is paid ends. The present plan undoes a change that has not begun.</p>
<form method="get" action="${path}/change">
<fieldset><legend>Plan</legend>${CHOICES.map(choice)}</fieldset>
<button>See what it costs</button>
</form>
${back(visit)}`;
  return { page: { title: "Change the plan", content, own: true } };
}

async function previewPage(
  visit: Visit,
  { tierId, cadence, label }: (typeof CHOICES)[number],
): Promise<Answer> {
  const path = billingPath(visit.params.accountId!);
  const other = html`<p><a href="${path}/change">Choose another plan</a></p>${back(visit)}`;
  let preview: Preview;
  try {
    const asked = new URLSearchParams({ tierId, cadence });
    preview = await visit.call<Preview>("GET", `${inApi(visit)}/subscription/change-preview?${asked}`);
  } catch (error) {
    if (!(error instanceof ApiRefusal) || ![409, 422].includes(error.status)) throw error;
    const content = html`<p>${error.message}</p>${other}`;
    return withRefusal({ title: "The plan cannot be changed so", content, own: true }, error);
  }
  const hidden = { account_id: visit.params.accountId!, tier: tierId, cadence, as_of: preview.asOf };
  const fields = Object.entries({ ...hidden, total: String(preview.totalUsd) });
  const content = html`${costOf(preview)}
${
  preview.effect === "none" && !preview.warnings.length
    ? html`<p>This is the plan already.</p>`
    : html`<form method="post" action="${path}/change" class="narrow">${visit.mark()}${fields.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
<button>${preview.totalUsd > 0 ? `Change the plan and pay ${dollars(preview.totalUsd)}` : "Change the plan"}</button></form>`
}
${other}`;
  return { page: { title: `Change to ${label}?`, content, own: true } };
}

/** Returns what is charged now and later, a sentence for each. */
function costOf(preview: Preview): Html {
  const { effect, effectiveAt, lines, discountUsd, taxUsd, balanceUsd, totalUsd } = preview;
  const { renewsAt, renewalUsd, creditUsd, cadence, warnings } = preview;
  const others = [
    { name: "Discount of the promo code", amount: -discountUsd },
    { name: "Taxes", amount: taxUsd },
    { name: "Balance of the account", amount: balanceUsd },
  ].filter(({ amount }) => amount !== 0);
  const begins =
    effect === "period_end" ? html`on ${day(effectiveAt)}. Until then nothing changes` : "immediately";
  return html`<p>It begins ${begins}. ${totalUsd > 0 ? html`${dollars(totalUsd)} are charged now` : "Nothing is charged now"}.</p>
${
  lines.length > 0 &&
  html`<ul class="list">${lines.map((line) => html`<li class="item"><span>${nameOf(line)}</span><span>${dollars(line.amountUsd)}</span></li>`)}
${others.map(({ name, amount }) => html`<li class="item"><span>${name}</span><span>${dollars(amount)}</span></li>`)}</ul>`
}
<p>The next payment for plan and members is ${dollars(renewalUsd)} on ${day(renewsAt)}, before discounts and taxes, and then each ${cadence === "annual" ? "year" : "month"} until you cancel. The plan pays ${dollars(creditUsd)} of compute in each month that begins from then on.</p>
${warnings.map((warning) => html`<p class="warning">${warning}</p>`)}`;
}

function nameOf({ kind, tier, quantity, amountUsd, description }: Line): string {
  const what =
    kind === "plan"
      ? `the ${tier} plan`
      : kind === "seat"
        ? `${quantity} additional member${quantity === 1 ? "" : "s"} of ${tier}`
        : description || "other things";
  return amountUsd < 0
    ? `Returned for the rest of the period: ${what}`
    : `For the rest of the period: ${what}`;
}

async function changePlan(visit: Visit): Promise<Answer> {
  const { fields } = visit;
  const path = billingPath(visit.params.accountId!);
  const chosen = {
    tierId: fields.get("tier") ?? "",
    cadence: fields.get("cadence") ?? "",
    ...(fields.get("as_of") && { asOf: fields.get("as_of") }),
    totalUsd: Number(fields.get("total")),
  };
  try {
    await visit.call("PATCH", `${inApi(visit)}/subscription`, chosen);
  } catch (error) {
    if (!(error instanceof ApiRefusal) || ![409, 422].includes(error.status)) throw error;
    const content = html`${alert(error.message)}<p><a href="${path}/change">Choose a plan again</a></p>${back(visit)}`;
    return withRefusal({ title: "The plan is not changed", content, own: true }, error);
  }
  return { seeOther: `${path}?done=changed` };
}

async function resumePage(visit: Visit): Promise<Answer> {
  const path = billingPath(visit.params.accountId!);
  const subscription = await readSubscription(visit);
  if (!subscription?.cancelAtPeriodEnd) {
    const page = { title: "There is no cancellation to undo", content: back(visit), own: true };
    return { page, status: 404 };
  }
  const content = html`<p>The plan continues, and is charged again on ${day(subscription.currentPeriodEnd)}. You can cancel it again at any time.</p>
<form method="post" action="${path}/resume" class="narrow">${visit.mark()}<input type="hidden" name="account_id" value="${visit.params.accountId}">
<button>Keep the plan</button></form>
${back(visit)}`;
  return { page: { title: "Keep the plan?", content, own: true } };
}

/** Where the form of an account's page is. */
const formAt = (name: string) => (fields: URLSearchParams) =>
  `${billingPath(fields.get("account_id") ?? "")}/${name}`;

/** The pages on which owners change their plan, and undo a cancellation (docs/billing.md#changing-the-plan). */
export const planChangePages: PageRoute[] = [
  {
    method: "GET",
    path: "/billing/:accountId/change",
    needsSession: true,
    handle: changePage,
  },
  {
    method: "POST",
    path: "/billing/:accountId/change",
    needsSession: true,
    formOn: formAt("change"),
    handle: changePlan,
  },
  { method: "GET", path: "/billing/:accountId/resume", needsSession: true, handle: resumePage },
  {
    method: "POST",
    path: "/billing/:accountId/resume",
    needsSession: true,
    formOn: formAt("resume"),
    async handle(visit) {
      await visit.call("PATCH", `${inApi(visit)}/subscription`, { cancelAtPeriodEnd: false });
      return { seeOther: `${billingPath(visit.params.accountId!)}?done=resumed` };
    },
  },
];
