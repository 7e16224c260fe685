import type Stripe from "stripe";
import { html } from "../../../services/kit/html.ts";
import { findCardByNumber, TEST_CARDS } from "../customers/test-cards.ts";
import { StripeError } from "../http/errors.ts";
import type { SimpleRequest, SimpleResponse } from "../http/routes.ts";
import { page, redirect, toDollars } from "../pages/layout.ts";
import type { World } from "../state/world.ts";
import { completeSession } from "./complete.ts";
import { toSessionLines, toSessionTotals } from "./session-lines.ts";

/** Handles `GET /c/:id`, the page where a session is paid, and `POST /c/:id`, its buttons. */
export function checkoutPage(world: World, id: string, { method, body }: SimpleRequest): SimpleResponse {
  const session = world.state.checkoutSessions.get(id);
  if (!session) return page("Not found", html`<p>There is no such checkout session.</p>`, 404);
  if (session.status !== "open") return closedPage(session);
  if (method !== "POST") return openPage(world, session);
  const form = new URLSearchParams(body);
  if (form.get("action") === "cancel") return redirect(session.cancel_url ?? session.success_url!);
  const number = form.get("card_number") ?? "";
  const card = findCardByNumber(number);
  if (!card) return openPage(world, session, "Your card number is not one of those listed below.");
  try {
    completeSession(world, session, card);
  } catch (error) {
    if (!(error instanceof StripeError)) throw error;
    return openPage(world, session, error.message);
  }
  return redirect(session.success_url!.replaceAll("{CHECKOUT_SESSION_ID}", id));
}

function closedPage(session: Stripe.Checkout.Session): SimpleResponse {
  const paid = session.status === "complete";
  return page(
    paid ? "Already paid" : "Expired",
    html`<p>${paid ? "You have paid already." : "This checkout session has expired."}</p>
<p><a href="${session[paid ? "success_url" : "cancel_url"] ?? session.success_url ?? "#"}">Back</a></p>`,
    paid ? 200 : 410,
  );
}

function openPage(world: World, session: Stripe.Checkout.Session, error?: string): SimpleResponse {
  const lines = toSessionLines(world, session.id);
  const { discount, total } = toSessionTotals(world, session.id);
  const interval = lines[0]?.price?.recurring?.interval ?? "month";
  return page(
    "Subscribe",
    html`<table><caption><small>What you buy</small></caption>
<thead><tr><th scope="col">Item</th><th scope="col">Price per ${interval}</th></tr></thead>
<tbody>${lines.map(
      ({ quantity, description, amount_subtotal }) =>
        html`<tr><td>${quantity ?? 1} × ${description ?? "Item"}</td><td>${toDollars(amount_subtotal)}</td></tr>`,
    )}
${discount > 0 && html`<tr><td>${discountName(world, session.id)}</td><td>${toDollars(-discount)}</td></tr>`}
<tr><th scope="row">Total due today</th><td><strong>${toDollars(total)}</strong></td></tr></tbody></table>
<p>For ${session.customer_details?.email ?? "a customer without an e-mail address"}</p>
<form method="post">
${error !== undefined && html`<p class="error" role="alert" id="error">${error}</p>`}
<label for="card_number">Card number</label>
<input id="card_number" name="card_number" inputmode="numeric" autocomplete="off" value="4242 4242 4242 4242"${
      error !== undefined && html` aria-invalid="true" aria-describedby="error"`
    }>
<p><small>Only these cards are accepted, and no number is stored:</small></p>
<ul>${TEST_CARDS.map(
      ({ number, outcome }) =>
        html`<li><small>${number.replaceAll(/(\d{4})(?=\d)/g, "$1 ")} ${OUTCOMES[outcome]}</small></li>`,
    )}</ul>
<button class="main" name="action" value="pay">Pay ${toDollars(total)}</button>
<button name="action" value="cancel" formnovalidate>Cancel</button>
</form>`,
    error === undefined ? 200 : 402,
  );
}

function discountName({ state }: World, session: string): string {
  const { coupon = "", promotion_code } = state.orders.get(session)?.discount ?? {};
  return (
    state.promotionCodes.get(promotion_code ?? "")?.code ?? state.coupons.get(coupon)?.name ?? "Discount"
  );
}

const OUTCOMES = {
  succeeds: "pays",
  declines: "is declined",
  fails_later: "pays now and fails at renewals",
  disputes: "pays, and the payer disputes it at the bank",
  needs_action: "pays now and waits for its payer at renewals",
};
