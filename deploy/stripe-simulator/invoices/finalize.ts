import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { needCustomer } from "../http/lookup.ts";
import { idOf, type World } from "../state/world.ts";
import { applyCredits, computeTotals } from "./totals.ts";

/** A smaller amount is not charged but carried over to the customer's next invoice. */
export const LEAST_CHARGE = 50;

/** Opens a draft for payment: counts usage for the last time and applies credits and the customer's balance. */
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

/** Applies the customer's balance to an invoice: a negative balance is credit, a positive one is owed. */
function takeBalance(invoice: Stripe.Invoice, customer: Stripe.Customer): void {
  invoice.starting_balance = customer.balance;
  const owed = invoice.total + customer.balance;
  const isCarried = owed > 0 && owed < LEAST_CHARGE;
  invoice.amount_due = owed <= 0 || isCarried ? 0 : owed;
  invoice.amount_remaining = invoice.amount_due;
  customer.balance = owed - invoice.amount_due;
  invoice.ending_balance = customer.balance;
}
