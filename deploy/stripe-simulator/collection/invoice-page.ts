import type Stripe from "stripe";
import { html } from "../../../services/kit/html.ts";
import type { SimpleRequest, SimpleResponse } from "../http/routes.ts";
import { page, toDollars } from "../pages/layout.ts";
import { toPdf } from "../pages/pdf.ts";
import type { World } from "../state/world.ts";
import { collect } from "./collect.ts";

/** Answers `/i/:id`, an invoice with a button to pay it when it is open, and `/i/:id/pdf`. */
export function invoicePage(world: World, id: string, { method, path }: SimpleRequest): SimpleResponse {
  const invoice = world.state.invoices.get(id);
  if (!invoice?.number) return page("Not found", html`<p>There is no such invoice.</p>`, 404);
  if (path.endsWith("/pdf"))
    return { status: 200, headers: { "content-type": "application/pdf" }, body: toPdf(toText(invoice)) };
  const isPaying = method === "POST" && invoice.status === "open";
  const declined = isPaying && collect(world, invoice, { by: "payer" }) !== "paid";
  return page(
    `Invoice ${invoice.number}`,
    html`${declined && html`<p class="error" role="alert">The payment failed.</p>`}
<p>For ${invoice.customer_email ?? "a customer"}: ${invoice.status ?? ""}</p>
<table><thead><tr><th scope="col">Item</th><th scope="col">Amount</th></tr></thead><tbody>
${invoice.lines.data.map(
  ({ description, amount }) => html`<tr><td>${description ?? ""}</td><td>${toDollars(amount)}</td></tr>`,
)}
${invoice.total !== invoice.subtotal && html`<tr><td>Discounts and credits</td><td>${toDollars(invoice.total - invoice.subtotal)}</td></tr>`}
<tr><th scope="row">Total</th><td><strong>${toDollars(invoice.total)}</strong></td></tr></tbody></table>
${invoice.status === "open" && html`<form method="post"><button class="main">Pay ${toDollars(invoice.amount_remaining)}</button></form>`}
<p><a href="/i/${invoice.id}/pdf">PDF</a></p>`,
    declined ? 402 : 200,
  );
}

function toText({ number, customer_email, status, lines, subtotal, total }: Stripe.Invoice): string[] {
  return [
    `Invoice ${number} (simulator: no money moves)`,
    `For ${customer_email ?? "a customer"}`,
    "",
    ...lines.data.map(({ description, amount }) => `${description}: ${toDollars(amount)}`),
    ...(total === subtotal ? [] : [`Discounts and credits: ${toDollars(total - subtotal)}`]),
    `Total: ${toDollars(total)}, ${status}`,
  ];
}
