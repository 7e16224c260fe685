import type Stripe from "stripe";
import { type Html, html } from "../../../services/kit/html.ts";
import { updateCustomer } from "../customers/customers.ts";
import { attach, createCard } from "../customers/payment-methods.ts";
import { findCardByNumber } from "../customers/test-cards.ts";
import type { SimpleRequest, SimpleResponse } from "../http/routes.ts";
import { page, redirect, toDollars } from "../pages/layout.ts";
import { idOf, type World } from "../state/world.ts";

/** How long the URL of a session is valid. */
const SESSION_SECONDS = 60 * 60;

/** Handles `/p/:id`: a customer's invoices, card and e-mail address, as far as the configuration allows. */
export function portalPage(world: World, id: string, request: SimpleRequest): SimpleResponse {
  const { state, clock } = world;
  const session = state.portalSessions.get(id);
  const customer = state.customers.get(session?.customer ?? "");
  if (!session || !customer || session.created + SESSION_SECONDS < clock.now())
    return page("Expired", html`<p>This page of the billing portal has expired. Open it again.</p>`, 404);
  const { features } = state.portalConfigurations.get(idOf(session.configuration))!;
  if (request.method !== "POST") return toPage(world, session, customer, features);
  const form = new URLSearchParams(request.body);
  const email = form.get("email");
  if (email !== null && mayChangeEmail(features)) updateCustomer(world, customer, { email });
  const number = form.get("card_number");
  if (number !== null && features.payment_method_update.enabled) {
    const card = findCardByNumber(number);
    if (!card || card.outcome === "declines")
      return toPage(world, session, customer, features, "Your card was declined.");
    setCard(world, customer, attach(world, createCard(world, card), customer.id));
  }
  return redirect(`/p/${id}`);
}

function setCard(world: World, customer: Stripe.Customer, method: Stripe.PaymentMethod): void {
  customer.invoice_settings.default_payment_method = method.id;
  world.emit("customer.updated", customer);
  for (const subscription of world.state.subscriptions.values()) {
    if (subscription.customer !== customer.id || subscription.ended_at !== null) continue;
    subscription.default_payment_method = method.id;
    world.emit("customer.subscription.updated", subscription);
  }
}

function mayChangeEmail({ customer_update }: Stripe.BillingPortal.Configuration.Features): boolean {
  return customer_update.enabled && customer_update.allowed_updates.includes("email");
}

function toPage(
  world: World,
  session: Stripe.BillingPortal.Session,
  customer: Stripe.Customer,
  features: Stripe.BillingPortal.Configuration.Features,
  error?: string,
): SimpleResponse {
  return page(
    "Billing",
    html`${error !== undefined && html`<p class="error" role="alert">${error}</p>`}
<h2>Payment method</h2>
<p>${cardText(world, customer)}</p>
${
  features.payment_method_update.enabled &&
  html`<form method="post"><label for="card_number">New card number</label>
<input id="card_number" name="card_number" inputmode="numeric" autocomplete="off" required value="5555 5555 5555 4444">
<button class="main">Update card</button></form>`
}
${
  mayChangeEmail(features) &&
  html`<form method="post"><label for="email">E-mail address for invoices</label>
<input id="email" name="email" type="email" required value="${customer.email ?? ""}"><button>Save</button></form>`
}
${features.invoice_history.enabled && invoiceTable(world, customer)}
${session.return_url !== null && html`<p><a href="${session.return_url}">Back</a></p>`}`,
    error === undefined ? 200 : 402,
  );
}

function cardText({ state }: World, customer: Stripe.Customer): string {
  const subscription = [...state.subscriptions.values()].findLast((one) => one.customer === customer.id);
  const method = customer.invoice_settings.default_payment_method ?? subscription?.default_payment_method;
  const card = state.paymentMethods.get(idOf(method ?? ""))?.card;
  return card ? `${card.brand} ending in ${card.last4}` : "None";
}

function invoiceTable({ state }: World, customer: Stripe.Customer): Html {
  const invoices = [...state.invoices.values()].filter(
    (one) => one.customer === customer.id && one.number !== null,
  );
  return html`<h2>Invoices</h2>
<table><thead><tr><th scope="col">Invoice</th><th scope="col">Status</th><th scope="col">Total</th></tr></thead><tbody>
${invoices
  .toReversed()
  .map(
    ({ id, number, status, total }) =>
      html`<tr><td><a href="/i/${id}">${number ?? ""}</a></td><td>${status ?? ""}</td><td>${toDollars(total)}</td></tr>`,
  )}
</tbody></table>`;
}
