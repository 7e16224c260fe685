import { type Html, html } from "../../../services/kit/html.ts";
import { done } from "../kit/layout.ts";
import type { PageRoute } from "../kit/visit.ts";

/** A page that anybody may open: what it says holds for all accounts, and nothing in its URL says which one. */
function returned(path: string, title: string, content: Html): PageRoute {
  return { method: "GET", path, needsSession: false, handle: async () => ({ page: { title, content } }) };
}

/** Where the payment provider's pages lead back to (docs/billing.md#subscribing). */
export const returnedPages: PageRoute[] = [
  returned(
    "/billing/subscribed",
    "Thank you",
    html`${done("The payment provider has received your order.")}
<p>The account moves to its new plan as soon as the payment is confirmed, usually within seconds. Its owners are then notified by mail.</p>
<p>The billing page of the account shows the plan, its invoices and the payment method. It is linked in <a href="/profile">your profile</a>.</p>`,
  ),
  returned(
    "/billing/not-subscribed",
    "Nothing was bought",
    html`<p>You left the page of the payment provider before you paid. The account keeps its current plan.</p>
<p>The page stays open for an hour. To return to it, choose the same plan on the billing page of the account, which is linked in <a href="/profile">your profile</a>.</p>`,
  ),
  returned(
    "/billing/portal-closed",
    "You left the billing portal",
    html`<p>Your changes are in effect. Berth shows them within seconds.</p>
<p>To open the portal again, go to the billing page of the account, which is linked in <a href="/profile">your profile</a>.</p>`,
  ),
];
