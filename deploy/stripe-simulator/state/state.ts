import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Stripe from "stripe";
import type { Delivery } from "../events/deliveries.ts";
import type { SavedResponse } from "../http/idempotency.ts";

/** What a payment took from a card: payment intents and charges, as far as the simulator knows them. */
export type Payment = {
  id: string;
  charge: string;
  amount: number;
  refunded: number;
  customer: string;
  invoice: string;
  payment_method: string;
};

/** What a checkout session sells: kept beside the session, since Stripe shows it only on request. */
export type Order = {
  lines: { id: string; price: string; quantity: number | undefined }[];
  subscription: Stripe.Checkout.SessionCreateParams.SubscriptionData;
  discount: { coupon: string; promotion_code: string | null } | undefined;
};

/** Use of a credit grant by an invoice. */
export type CreditUse = {
  id: string;
  grant: string;
  invoice: string;
  line: string;
  amount: number;
  created: number;
};

/** How a card behaves when it is charged. */
export type CardOutcome = "succeeds" | "declines" | "fails_later" | "needs_action";

/** A payment as Stripe shows it beside its invoice, as far as the simulator knows it. */
export type PaymentIntent = Pick<Stripe.PaymentIntent, "id" | "object" | "amount" | "customer" | "status">;

/** The members that are decimals: texts in JSON. */
const DECIMALS = ["amount_decimal", "quantity_decimal", "unit_amount_decimal"];

/** All that the simulator knows. Objects are in Stripe's own shapes, with ids where they refer to each other. */
export type State = ReturnType<typeof emptyState>;

function emptyState() {
  return {
    clock: { seconds: 0 },
    counters: { invoice: 0, creditNote: 0 },
    customers: new Map<string, Stripe.Customer>(),
    deleted: new Map<string, { id: string; object: string; deleted: true }>(),
    products: new Map<string, Stripe.Product>(),
    prices: new Map<string, Stripe.Price>(),
    coupons: new Map<string, Stripe.Coupon>(),
    promotionCodes: new Map<string, Stripe.PromotionCode>(),
    discounts: new Map<string, Stripe.Discount>(),
    meters: new Map<string, Stripe.Billing.Meter>(),
    meterEvents: new Map<string, Stripe.Billing.MeterEvent>(),
    creditGrants: new Map<string, Stripe.Billing.CreditGrant>(),
    creditUses: new Map<string, CreditUse>(),
    paymentMethods: new Map<string, Stripe.PaymentMethod>(),
    cardOutcomes: new Map<string, CardOutcome>(),
    checkoutSessions: new Map<string, Stripe.Checkout.Session>(),
    orders: new Map<string, Order>(),
    subscriptions: new Map<string, Stripe.Subscription>(),
    invoices: new Map<string, Stripe.Invoice>(),
    invoiceItems: new Map<string, Stripe.InvoiceItem>(),
    invoicePayments: new Map<string, Stripe.InvoicePayment>(),
    payments: new Map<string, Payment>(),
    paymentIntents: new Map<string, PaymentIntent>(),
    creditNotes: new Map<string, Stripe.CreditNote>(),
    refunds: new Map<string, Stripe.Refund>(),
    portalConfigurations: new Map<string, Stripe.BillingPortal.Configuration>(),
    portalSessions: new Map<string, Stripe.BillingPortal.Session>(),
    webhookEndpoints: new Map<string, Stripe.WebhookEndpoint>(),
    events: new Map<string, Stripe.EventBase>(),
    deliveries: new Map<string, Delivery>(),
    responses: new Map<string, SavedResponse>(),
  };
}

/**
 * Returns the state that a folder holds, or an empty one. `save` writes it, all or nothing, and `saveLeft` what could
 * not be written before: neither throws, for a full disk shall not end the process, which runs more than this.
 */
export function openState(dir: string | undefined): { state: State; save: () => void; saveLeft: () => void } {
  const state = emptyState();
  if (dir === undefined) return { state, save: () => {}, saveLeft: () => {} };
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const file = join(dir, "stripe.json");
  restore(state, readIfThere(file));
  let left = false;
  function save(): void {
    try {
      writeFileSync(`${file}.new`, serialize(state), { mode: 0o600 });
      renameSync(`${file}.new`, file);
      left = false;
    } catch (error) {
      if (!left) console.error("the simulator of Stripe cannot save its state; it tries on:", error);
      left = true;
    }
  }
  return { state, save, saveLeft: () => void (left && save()) };
}

function serialize(state: State): string {
  return JSON.stringify(state, (_, value) => (value instanceof Map ? [...value] : value));
}

function restore(state: State, saved: string | undefined): void {
  if (saved === undefined) return;
  const tables = JSON.parse(saved, (name, value) =>
    DECIMALS.includes(name) && typeof value === "string" ? Stripe.Decimal.from(value) : value,
  );
  for (const [name, table] of Object.entries(state)) {
    const rows = tables[name];
    if (!(table instanceof Map)) Object.assign(table, rows);
    else for (const [id, row] of rows ?? []) (table as Map<string, unknown>).set(id, row);
  }
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
