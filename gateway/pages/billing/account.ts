import { type Html, html } from "../../../services/kit/html.ts";
import { ApiRefusal } from "../kit/api.ts";
import { alert, day, done } from "../kit/layout.ts";
import type { Answer, PageRoute, Visit } from "../kit/visit.ts";
import { type List, older } from "../profile/older.ts";
import { dollars } from "./dollars.ts";

type Item = { kind: string; ref: string; quantity: number; unitPriceUsd: number };

export type Subscription = {
  status: string;
  cadence: "monthly" | "annual";
  currentPeriodEnd: string;
  cancelAtPeriodEnd: boolean;
  couponCode?: string;
  /** Absent with an earlier version of billing, which changes no plans. */
  pendingChange?: { tierId: string; cadence: "monthly" | "annual"; at: string };
  items: Item[];
  paymentMethod?: { brand: string; last4?: string; expMonth?: number; expYear?: number };
};

type Invoice = {
  id: string;
  number?: string;
  periodStart: string;
  periodEnd: string;
  totalUsd: number;
  status: string;
  pdfUrl?: string;
  hostedUrl?: string;
};

type Usage = {
  periodStart: string;
  periodEnd: string;
  netUsd: number;
  projectedNetUsd: number;
  /** An earlier version of billing does not say it. */
  owedUsd?: number;
  services: { serviceName: string; projectName: string; accruedUsd: number }[];
};

type Plan = { tier: string; graceUntil?: string; suspended?: string };

type Account = { handle: string; plan?: Plan };

/** Returns the path of an account in the API. */
export const inApi = ({ params }: Visit) => `/accounts/${encodeURIComponent(params.accountId!)}`;
/** Returns the path of an account's billing page. */
export const billingPath = (accountId: string) => `/billing/${encodeURIComponent(accountId)}`;

/** Returns the subscription of the page's account; undefined on the free plan. */
export function readSubscription(visit: Visit): Promise<Subscription | undefined> {
  return visit.call<Subscription>("GET", `${inApi(visit)}/subscription`).catch((error: unknown) => {
    if (error instanceof ApiRefusal && error.code === "subscription_not_found") return undefined;
    throw error;
  });
}

const DONE: Record<string, string> = {
  canceled: "The plan is canceled.",
  changed: "The plan is changed.",
  resumed: "The cancellation is undone.",
};

async function accountPage(visit: Visit): Promise<Answer> {
  const { query, params } = visit;
  const path = billingPath(params.accountId!);
  // First what refuses who may not see it.
  const subscription = await readSubscription(visit);
  const [{ handle, plan }, usage, invoices] = await Promise.all([
    visit.call<Account>("GET", inApi(visit)),
    visit.call<Usage>("GET", `${inApi(visit)}/compute-usage`),
    visit.call<List<Invoice>>("GET", `${inApi(visit)}/invoices${older.queryOf(query)}`),
  ]);
  const content = html`${done(DONE[query.get("done") ?? ""])}
${subscription ? planOf(subscription, path) : withoutPlan(plan ?? { tier: "free" }, usage, path)}
${suspensionOf(plan)}
<h2>Compute since ${day(usage.periodStart)}</h2>
${computeOf(usage)}
<h2>Invoices</h2>
${
  invoices.data.length > 0
    ? html`<ul class="list">${invoices.data.map((invoice) => invoiceItem(invoice, path))}</ul>`
    : html`<p>There are no invoices.</p>`
}
${older.link(path, invoices.page)}`;
  return { page: { title: `Billing of ${handle}`, content, own: true } };
}

function planOf(subscription: Subscription, path: string): Html {
  const { status, cadence, currentPeriodEnd, cancelAtPeriodEnd, couponCode, paymentMethod } = subscription;
  const { pendingChange: next } = subscription;
  const plan = subscription.items.find(({ kind }) => kind === "plan");
  const members = subscription.items.find(({ kind }) => kind === "seat")?.quantity ?? 0;
  const price = subscription.items.reduce((sum, item) => sum + item.quantity * item.unitPriceUsd, 0);
  const each = cadence === "annual" ? "year" : "month";
  const unpaid = "A payment failed. Pay the open invoice below, or change the payment method.";
  return html`${alert(status === "past_due" ? unpaid : undefined)}
<dl>
<dt>Plan</dt><dd>${plan?.ref ?? "unknown"}${members > 0 && html`, with ${members} additional member${members > 1 && "s"}`}</dd>
<dt>Price</dt><dd>${dollars(price)} a ${each}${couponCode && html`, less the discount of the promo code ${couponCode}`}, and compute monthly</dd>
${
  cancelAtPeriodEnd
    ? html`<dt>Ends</dt><dd>${day(currentPeriodEnd)}: it is canceled and will not be charged again</dd>`
    : html`<dt>Next payment</dt><dd>${day(currentPeriodEnd)}</dd>`
}
${next && html`<dt>Changes</dt><dd>${day(next.at)}: to the ${next.tierId} plan, paid ${next.cadence === "annual" ? "yearly" : "monthly"}</dd>`}
<dt>Payment method</dt><dd>${methodOf(paymentMethod)}</dd>
</dl>
<p><a href="${path}/portal">Payment method and address at the payment provider</a></p>
${
  cancelAtPeriodEnd
    ? html`<p><a href="${path}/resume">Keep the plan…</a></p>`
    : html`<p><a href="${path}/change">Change the plan…</a></p>
<p><a href="${path}/cancel">Cancel the plan…</a></p>`
}`;
}

function methodOf(method: Subscription["paymentMethod"]): string {
  if (!method) return "none";
  const { brand, last4, expMonth, expYear } = method;
  const end = last4 ? `, ending in ${last4}` : "";
  return `${brand}${end}${expMonth && expYear ? `, valid until ${expMonth}/${expYear}` : ""}`;
}

/** Returns what is stopped, and when; nothing of an account whose services may run. */
function suspensionOf(plan: Plan | undefined): Html | false {
  if (plan?.suspended === "spend_limit")
    return html`<p class="warning">The spend limit is reached. Services beyond the allowance are stopped until the period ends, or the limit is raised or removed.</p>`;
  if (plan?.suspended)
    return html`<p class="warning">Services beyond the free plan are stopped, because no plan pays for them. They start again when you choose a plan.</p>`;
  return (
    plan?.graceUntil !== undefined &&
    html`<p class="warning">What runs beyond the free plan keeps running until ${day(plan.graceUntil)}. Then it is stopped, unless you choose a plan.</p>`
  );
}

function withoutPlan({ tier }: Plan, { owedUsd = 0 }: Usage, path: string): Html {
  if (tier !== "free")
    return html`<p>The account is on the ${tier} plan, which is not billed here. Ask the operator about it.</p>`;
  const owed = html`Compute that ran beyond it, ${dollars(owedUsd)} so far, is charged with the next subscription.`;
  return html`<p>The account is on the free plan. ${owedUsd > 0 ? owed : "Nothing is charged."}</p>
<p><a class="button" href="${path}/subscribe">Choose a plan</a></p>`;
}

function computeOf({ netUsd, projectedNetUsd, periodEnd, services }: Usage): Html {
  const service = ({ serviceName, projectName, accruedUsd }: Usage["services"][number]) =>
    html`<li class="item"><span><strong>${serviceName}</strong><small>${projectName}</small></span><span>${dollars(accruedUsd)}</span></li>`;
  return html`<p>${dollars(netUsd)} so far, after the allowance and the plan's credit. If everything keeps running as it does now, it will be ${dollars(projectedNetUsd)} on ${day(periodEnd)}.</p>
${services.length > 0 && html`<ul class="list">${services.map(service)}</ul>`}`;
}

function invoiceItem(invoice: Invoice, path: string): Html {
  const { id, number, periodStart, periodEnd, totalUsd, status, pdfUrl, hostedUrl } = invoice;
  const name = number ?? id;
  const to = (page: string) => `${path}/invoices/${encodeURIComponent(id)}/${page}`;
  return html`<li class="item"><span><strong>${name}</strong> <span class="badge">${status}</span>
<small>${dollars(totalUsd)}, ${day(periodStart)} to ${day(periodEnd)}</small></span>
<span>${pdfUrl && html`<a href="${to("pdf")}" aria-label="PDF of ${name}">PDF</a>`}${
    status === "open" && hostedUrl && html` <a href="${to("pay")}" aria-label="Pay ${name}">Pay</a>`
  }</span></li>`;
}

/** The most pages of a hundred invoices that are searched for one. */
const MAX_PAGES = 20;

async function findInvoice(visit: Visit): Promise<Invoice | undefined> {
  let cursor = "";
  for (let n = 0; n < MAX_PAGES; n++) {
    const query = new URLSearchParams({ limit: "100", ...(cursor && { cursor }) });
    const { data, page } = await visit.call<List<Invoice>>("GET", `${inApi(visit)}/invoices?${query}`);
    const found = data.find(({ id }) => id === visit.params.invoiceId);
    if (found || !page.hasMore) return found;
    cursor = page.nextCursor;
  }
  return undefined;
}

/** A page that leads on to an invoice at the payment provider: its links are no part of mails, which may be passed on. */
function invoicePage(name: string, urlOf: (invoice: Invoice) => string | undefined): PageRoute {
  return {
    method: "GET",
    path: `/billing/:accountId/invoices/:invoiceId/${name}`,
    needsSession: true,
    async handle(visit) {
      const invoice = await findInvoice(visit);
      const url = invoice && urlOf(invoice);
      if (url) return { seeOther: url };
      const content = html`<p>The account has no such invoice, or the payment provider does not show it.</p>
<p><a href="${billingPath(visit.params.accountId!)}">See the billing of the account</a></p>`;
      return { page: { title: "No such invoice", content, own: true }, status: 404 };
    },
  };
}

/** The billing page of an account, for its owners (docs/oauth.md#pages). */
export const accountPages: PageRoute[] = [
  { method: "GET", path: "/billing/:accountId", needsSession: true, handle: accountPage },
  {
    method: "GET",
    path: "/billing/:accountId/portal",
    needsSession: true,
    async handle(visit) {
      const { url } = await visit.call<{ url: string }>("GET", `${inApi(visit)}/billing-portal`);
      return { seeOther: url };
    },
  },
  invoicePage("pdf", ({ pdfUrl }) => pdfUrl),
  invoicePage("pay", ({ hostedUrl }) => hostedUrl),
];
