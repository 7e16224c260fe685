import { type Html, html } from "../../../services/kit/html.ts";
import { done } from "../kit/layout.ts";
import type { PageRoute } from "../kit/visit.ts";

/**
 * A page that anybody may open: what it says holds for all accounts. Who is signed in goes on to the console, which knows
 * the account.
 */
function returned(name: string, title: string, content: Html): PageRoute {
  return {
    method: "GET",
    path: `/billing/${name}`,
    needsSession: false,
    async handle({ console, query, signedIn }) {
      const account = query.get("account");
      if (!console || !account || !signedIn) return { page: { title, content } };
      return { seeOther: `${console}/accounts/${encodeURIComponent(account)}/subscription?returned=${name}` };
    },
  };
}

/** Where the payment provider's pages lead back to (docs/billing.md#subscribing). */
export const returnedPages: PageRoute[] = [
  returned(
    "subscribed",
    "Thank you",
    html`${done("The payment provider has received your order.")}
<p>The account moves to its new plan as soon as the payment is confirmed, usually within seconds. Its owners are then notified by mail.</p>
<p>The billing page of the account shows the plan, its invoices and the payment method. It is linked in <a href="/profile">your profile</a>.</p>`,
  ),
  returned(
    "not-subscribed",
    "Nothing was bought",
    html`<p>You left the page of the payment provider before you paid. The account keeps its current plan.</p>
<p>The page stays open for an hour. To return to it, choose the same plan on the billing page of the account, which is linked in <a href="/profile">your profile</a>.</p>`,
  ),
  returned(
    "portal-closed",
    "You left the billing portal",
    html`<p>Your changes are in effect. Berth shows them within seconds.</p>
<p>To open the portal again, go to the billing page of the account, which is linked in <a href="/profile">your profile</a>.</p>`,
  ),
];
