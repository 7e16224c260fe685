import { type Html, html } from "../../../services/kit/html.ts";
import { done } from "../kit/layout.ts";
import type { PageRoute } from "../kit/visit.ts";

/** A page that anybody may open: what it says holds for all accounts, and nothing in its URL says which one. */
function returned(path: string, title: string, content: Html): PageRoute {
  return { method: "GET", path, needsSession: false, handle: async () => ({ page: { title, content } }) };
}

/** Where the payment provider's pages lead back to (docs/billing.md#subscribing). */
export const billingPages: PageRoute[] = [
  returned(
    "/billing/subscribed",
    "Thank you",
    html`${done("The payment provider has taken your order.")}
<p>The account changes to its new plan as soon as the payment is confirmed, mostly within seconds. Its owners get a mail then.</p>
<p><code>GET /accounts/{accountId}/subscription</code> of the API shows the plan, its invoices and how it is paid.</p>`,
  ),
  returned(
    "/billing/not-subscribed",
    "Nothing was bought",
    html`<p>You left the page of the payment provider before you paid. The account keeps the plan that it has.</p>
<p>The page stays open for an hour: <code>POST /accounts/{accountId}/subscription</code> of the API leads to it again.</p>`,
  ),
  returned(
    "/billing/portal-closed",
    "You left the billing portal",
    html`<p>What you changed there holds from now on. Berth shows it within seconds.</p>
<p><code>GET /accounts/{accountId}/billing-portal</code> of the API leads to the portal again.</p>`,
  ),
];
