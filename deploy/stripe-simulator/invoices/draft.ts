import type Stripe from "stripe";
import type { Period } from "../catalog/periods.ts";
import { needCustomer } from "../http/lookup.ts";
import { toList } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";
import { type LineInput, toLine } from "./lines.ts";
import { computeTotals } from "./totals.ts";

/** How long a draft waits before it is finalized: time to report the last usage of its period. */
const DRAFT_SECONDS = 60 * 60;

export type DraftInput = {
  customer: string;
  subscription: Stripe.Subscription | undefined;
  reason: Stripe.Invoice.BillingReason;
  lines: LineInput[];
  period: Period;
  /** Whether it is finalized and collected automatically. */
  autoAdvance: boolean;
  metadata?: Stripe.Metadata;
  /** Whether tax is calculated, if no subscription says it. */
  automaticTax?: boolean;
  description?: string | null;
};

/** Adds a draft, which is finalized in an hour. */
export function createDraft(world: World, input: DraftInput): Stripe.Invoice {
  const invoice = toDraft(world, input);
  world.state.invoices.set(invoice.id, invoice);
  for (const { invoiceItem } of input.lines) {
    const item = world.state.invoiceItems.get(invoiceItem ?? "");
    if (item) item.invoice = invoice.id;
  }
  if (input.subscription) input.subscription.latest_invoice = invoice.id;
  world.emit("invoice.created", invoice);
  return invoice;
}

/** Returns a draft with its totals, without adding it. */
export function toDraft(world: World, input: DraftInput): Stripe.Invoice {
  const { state, clock } = world;
  const now = clock.now();
  const customer = needCustomer(state, input.customer);
  const id = newId("in");
  const { subscription } = input;
  const lines = input.lines.map((line) => toLine(id, line));
  const invoice = {
    id,
    object: "invoice",
    account_country: "US",
    account_name: "Simulator",
    account_tax_ids: null,
    amount_due: 0,
    amount_overpaid: 0,
    amount_paid: 0,
    amount_remaining: 0,
    amount_shipping: 0,
    application: null,
    attempt_count: 0,
    attempted: false,
    auto_advance: input.autoAdvance,
    automatic_tax: {
      disabled_reason: null,
      enabled: subscription?.automatic_tax.enabled ?? input.automaticTax ?? false,
      liability: null,
      provider: null,
      status: null,
    },
    automatically_finalizes_at: input.autoAdvance ? now + DRAFT_SECONDS : null,
    billing_reason: input.reason,
    collection_method: "charge_automatically",
    created: now,
    currency: "usd",
    custom_fields: null,
    customer: customer.id,
    customer_account: null,
    customer_address: customer.address ?? null,
    customer_email: customer.email,
    customer_name: customer.name ?? null,
    customer_phone: customer.phone ?? null,
    customer_shipping: null,
    customer_tax_exempt: "none",
    customer_tax_ids: [],
    default_payment_method: null,
    default_source: null,
    default_tax_rates: [],
    description: input.description ?? null,
    discounts: subscription?.discounts.map(String) ?? [],
    due_date: null,
    effective_at: null,
    ending_balance: null,
    footer: null,
    from_invoice: null,
    hosted_invoice_url: null,
    invoice_pdf: null,
    issuer: { type: "self" },
    last_finalization_error: null,
    latest_revision: null,
    lines: toList(lines, `/v1/invoices/${id}/lines`),
    livemode: false,
    metadata: input.metadata ?? {},
    next_payment_attempt: null,
    number: null,
    on_behalf_of: null,
    parent: subscription
      ? {
          quote_details: null,
          subscription_details: { metadata: subscription.metadata, subscription: subscription.id },
          type: "subscription_details",
        }
      : null,
    payment_settings: { default_mandate: null, payment_method_options: null, payment_method_types: null },
    period_end: input.period.end,
    period_start: input.period.start,
    post_payment_credit_notes_amount: 0,
    pre_payment_credit_notes_amount: 0,
    receipt_number: null,
    rendering: null,
    shipping_cost: null,
    shipping_details: null,
    starting_balance: customer.balance,
    statement_descriptor: null,
    status: "draft",
    status_transitions: { finalized_at: null, marked_uncollectible_at: null, paid_at: null, voided_at: null },
    subtotal: 0,
    subtotal_excluding_tax: 0,
    test_clock: null,
    total: 0,
    total_discount_amounts: [],
    total_excluding_tax: 0,
    total_pretax_credit_amounts: [],
    total_taxes: [],
    webhooks_delivered_at: now,
  } satisfies Stripe.Invoice;
  computeTotals(world, invoice);
  return invoice;
}
