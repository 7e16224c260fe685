import { type Html, html } from "../../../services/kit/html.ts";
import { productOf } from "../catalog/prices.ts";
import type { SimpleRequest, SimpleResponse } from "../http/routes.ts";
import { page, redirect, toDollars } from "../pages/layout.ts";
import type { World } from "../state/world.ts";
import { idOf } from "../state/world.ts";
import type { Controls } from "./routes.ts";

const HOUR = 3_600;
const DAY = 24 * HOUR;
/** 31 days, so that everything monthly falls due within it. */
const STEPS = { "An hour later": HOUR, "A day later": DAY, "A month later": 31 * DAY };
const LATEST_INVOICES = 10;

/** Handles `GET /`, an overview of the state, and `POST /`, which advances the clock by `seconds`. */
export function homePage({ world, clock }: Controls, { method, body }: SimpleRequest): SimpleResponse {
  if (method === "POST") {
    const seconds = Number(new URLSearchParams(body).get("seconds"));
    if (Object.values(STEPS).includes(seconds)) clock.advance(seconds);
    return redirect("/");
  }
  return page(
    "Payments",
    html`<p>Berth sends requests to this simulator instead of Stripe. It serves checkout pages, invoices and the portal.</p>
<h2>Time</h2>
<p>It is ${toTime(clock.now())} here. A renewal's invoice is paid an hour after the renewal; a payment that fails is
retried some days later. Berth's own clock does not change: usage counts real time.</p>
<form method="post">${Object.entries(STEPS).map(
      ([name, seconds]) => html`<button name="seconds" value="${seconds}">${name}</button> `,
    )}</form>
<h2>Open checkouts</h2>${list(openCheckouts(world))}
<h2>Subscriptions</h2>${list(subscriptions(world))}
<h2>Latest invoices</h2>${list(invoices(world))}
<h2>Promo codes</h2>${list(promoCodes(world))}`,
  );
}

const list = (rows: Html[]) =>
  rows.length === 0 ? html`<p>None.</p>` : html`<ul>${rows.map((row) => html`<li>${row}</li>`)}</ul>`;

function openCheckouts({ state }: World): Html[] {
  return [...state.checkoutSessions.values()]
    .filter(({ status }) => status === "open")
    .map(({ id, customer_details }) => html`<a href="/c/${id}">${customer_details?.email ?? id}</a>`);
}

function subscriptions({ state }: World): Html[] {
  return [...state.subscriptions.values()].map(({ id, status, customer, items }) => {
    const email = state.customers.get(idOf(customer))?.email ?? idOf(customer);
    const names = items.data.map(({ price }) => state.products.get(productOf(price))?.name);
    return html`${email}: ${names.join(", ")}, ${status} <small>${id}</small>`;
  });
}

function invoices({ state }: World): Html[] {
  const latest = [...state.invoices.values()].slice(-LATEST_INVOICES).reverse();
  return latest.map(({ id, status, total }) => {
    const words = html`${toDollars(total)}, ${status ?? "draft"}`;
    return status === "draft" ? words : html`<a href="/i/${id}">${words}</a>`;
  });
}

function promoCodes({ state }: World): Html[] {
  return [...state.promotionCodes.values()]
    .filter(({ active }) => active)
    .map(({ code, promotion }) => {
      const coupon = promotion.coupon && state.coupons.get(idOf(promotion.coupon));
      return html`<strong>${code}</strong>: ${coupon ? (coupon.name ?? coupon.id) : ""}`;
    });
}

const toTime = (seconds: number) => new Date(seconds * 1_000).toISOString().replace(/\.\d+/, "");
