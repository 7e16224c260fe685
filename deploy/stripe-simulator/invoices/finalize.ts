import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { idOf, needCustomer, type World } from "../state/world.ts";
import { applyCredits, computeTotals } from "./totals.ts";

/** Less than this is not charged, but carried to the customer's next invoice. */
const LEAST_CHARGE = 50;

/** Makes a draft an invoice that is owed: counts use for the last time, takes credits and the customer's balance. */
export function finalize(world: World, invoice: Stripe.Invoice): void {
  if (invoice.status !== "draft")
    throw invalid("This invoice is already finalized, you can't re-finalize a non-draft invoice.", "invoice");
  const { state, clock } = world;
  const now = clock.now();
  const customer = needCustomer(state, idOf(invoice.customer ?? ""));
  computeTotals(world, invoice);
  applyCredits(world, invoice);
  takeBalance(invoice, customer);
  state.counters.invoice++;
  invoice.number = `${customer.invoice_prefix}-${String(state.counters.invoice).padStart(4, "0")}`;
  invoice.status = "open";
  invoice.automatically_finalizes_at = null;
  invoice.effective_at = now;
  invoice.status_transitions.finalized_at = now;
  invoice.hosted_invoice_url = `${world.url}/i/${invoice.id}`;
  invoice.invoice_pdf = `${world.url}/i/${invoice.id}/pdf`;
  customer.currency ??= "usd";
  world.emit("invoice.finalized", invoice);
}

/** Settles an invoice with the customer's balance: below zero is credit, above it is owed. */
function takeBalance(invoice: Stripe.Invoice, customer: Stripe.Customer): void {
  invoice.starting_balance = customer.balance;
  const owed = invoice.total + customer.balance;
  const isCarried = owed > 0 && owed < LEAST_CHARGE;
  invoice.amount_due = owed <= 0 || isCarried ? 0 : owed;
  invoice.amount_remaining = invoice.amount_due;
  customer.balance = owed - invoice.amount_due;
  invoice.ending_balance = customer.balance;
}
