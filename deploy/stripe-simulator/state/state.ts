import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Stripe from "stripe";

/** A payment by card: a payment intent and its charge, reduced to the members in use. */
export type Payment = {
  id: string;
  charge: string;
  amount: number;
  refunded: number;
  customer: string;
  invoice: string;
  payment_method: string;
};

/** What a checkout session sells: stored beside the session, since Stripe shows it only on request. */
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
export type CardOutcome = "succeeds" | "declines" | "fails_later" | "needs_action" | "disputes";

/** A payment intent, reduced to the members in use. */
export type PaymentIntent = Pick<Stripe.PaymentIntent, "id" | "object" | "amount" | "customer" | "status">;

/** A pending delivery of an event to an endpoint; `due` is a time of the simulator's clock. */
export type Delivery = { id: string; event: string; endpoint: string; attempts: number; due: number };

/** The response to a request with an Idempotency-Key, successful or not, which repetitions get too. */
export type SavedResponse = { request: string; status: number; body: object; id: string; created: number };

/** Members that are decimals, which are strings in JSON. */
const DECIMALS = ["amount_decimal", "quantity_decimal", "unit_amount_decimal"];

/** The whole state. Objects have Stripe's own shapes and refer to each other by ids. */
export type State = ReturnType<typeof emptyState>;

function emptyState() {
  return {
    clock: { seconds: 0 },
    counters: { invoice: 0, creditNote: 0 },
    tax: {} as {
      country?: string;
      tax_code?: string;
      tax_behavior?: Stripe.Tax.Settings.Defaults["tax_behavior"];
    },
    taxRegistrations: new Map<string, Stripe.Tax.Registration>(),
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
    schedules: new Map<string, Stripe.SubscriptionSchedule>(),
    invoices: new Map<string, Stripe.Invoice>(),
    /** Previews that have more lines than are shown with them. */
    previews: new Map<string, Stripe.Invoice>(),
    invoiceItems: new Map<string, Stripe.InvoiceItem>(),
    invoicePayments: new Map<string, Stripe.InvoicePayment>(),
    payments: new Map<string, Payment>(),
    paymentIntents: new Map<string, PaymentIntent>(),
    creditNotes: new Map<string, Stripe.CreditNote>(),
    refunds: new Map<string, Stripe.Refund>(),
    disputes: new Map<string, Stripe.Dispute>(),
    portalConfigurations: new Map<string, Stripe.BillingPortal.Configuration>(),
    portalSessions: new Map<string, Stripe.BillingPortal.Session>(),
    webhookEndpoints: new Map<string, Stripe.WebhookEndpoint>(),
    events: new Map<string, Stripe.EventBase>(),
    deliveries: new Map<string, Delivery>(),
    responses: new Map<string, SavedResponse>(),
  };
}

/**
 * Returns the state stored in a folder, or an empty one. `save` writes it atomically; `retrySave` writes it when the last
 * `save` failed. Neither throws: a full disk must not end the process, which runs more than this.
 */
export function openState(dir: string | undefined): {
  state: State;
  save: () => void;
  retrySave: () => void;
} {
  const state = emptyState();
  if (dir === undefined) return { state, save: () => {}, retrySave: () => {} };
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const file = join(dir, "stripe.json");
  restore(state, readIfThere(file));
  let unsaved = false;
  function save(): void {
    try {
      writeFileSync(`${file}.new`, serialize(state), { mode: 0o600 });
      renameSync(`${file}.new`, file);
      unsaved = false;
    } catch (error) {
      if (!unsaved) console.error("the simulator of Stripe cannot save its state and keeps trying:", error);
      unsaved = true;
    }
  }
  return { state, save, retrySave: () => void (unsaved && save()) };
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
