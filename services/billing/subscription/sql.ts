import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { PaidInvoice } from "../cancellation/refund.ts";
import type { MirroredInvoice, MirroredSubscription } from "./mirror.ts";

/** A subscription as the API shows it, without its invoices. */
export type SubscriptionRow = Pick<
  MirroredSubscription,
  "id" | "accountId" | "status" | "tier" | "cadence" | "priceVersion" | "cancelAtPeriodEnd" | "items"
> & {
  createdAt: Timestamp;
  currentPeriodEnd: Timestamp;
  coupon: MirroredSubscription["coupon"] | null;
  paymentMethod: MirroredSubscription["paymentMethod"] | null;
};

const SUBSCRIPTION = `id, account_id as "accountId", status, tier, cadence, price_version as "priceVersion",
  created_at as "createdAt", current_period_end as "currentPeriodEnd", cancel_at_period_end as "cancelAtPeriodEnd",
  coupon, items, payment_method as "paymentMethod"`;

/** Subscriptions that are not over, whether they are paid or not. */
export const LIVE = ["active", "trialing", "past_due", "unpaid", "paused", "incomplete"];

/** In these the account has what it pays for; while a payment is retried, it keeps it. */
export const SUBSCRIBED = ["active", "trialing", "past_due"];

/** Returns the account's subscription: the one that is not over, or else the last. */
export function findSubscription(db: Db, accountId: string): Promise<SubscriptionRow | undefined> {
  return one<SubscriptionRow>(
    db,
    "subscription_find",
    `select ${SUBSCRIPTION} from subscriptions s where account_id = $1
     order by status = any($2) desc,
       exists (select from cancellations c where c.subscription_id = s.id and c.kind = 'duplicate'), created_at desc, id
     limit 1`,
    [accountId, LIVE],
  );
}

/** Records a subscription as the provider reports it. Returns what was recorded before. */
export async function putSubscription(db: Db, row: MirroredSubscription) {
  const before = await one<{ status: string; cancelAtPeriodEnd: boolean }>(
    db,
    "subscription_before",
    `select status, cancel_at_period_end as "cancelAtPeriodEnd" from subscriptions where id = $1 for update`,
    [row.id],
  );
  await one(
    db,
    "subscription_put",
    `insert into subscriptions (id, account_id, status, tier, cadence, price_version, created_at, current_period_end,
       compute_start, compute_end, cancel_at_period_end, coupon, items, payment_method)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
     on conflict (id) do update set status = $3, tier = $4, cadence = $5, price_version = $6, current_period_end = $8,
       compute_start = $9, compute_end = $10, cancel_at_period_end = $11, coupon = $12, items = $13,
       payment_method = $14`,
    [
      row.id,
      row.accountId,
      row.status,
      row.tier,
      row.cadence,
      row.priceVersion,
      row.created,
      row.currentPeriodEnd,
      row.compute?.start ?? null,
      row.compute?.end ?? null,
      row.cancelAtPeriodEnd,
      row.coupon ? JSON.stringify(row.coupon) : null,
      JSON.stringify(row.items),
      row.paymentMethod ? JSON.stringify(row.paymentMethod) : null,
    ],
  );
  return before;
}

/** Records the card that owners are told expires soon. Returns 0 when they were told of it. */
export function setExpiringCard(db: Db, subscriptionId: string, card: string): Promise<number> {
  const text =
    "update subscriptions set expiring_card = $2 where id = $1 and expiring_card is distinct from $2";
  return execute(db, "subscription_expiring_card", text, [subscriptionId, card]);
}

/** Records the price list that owners are told is superseded. Returns 0 when they were told of it. */
export function setSupersededPrices(db: Db, subscriptionId: string, version: string): Promise<number> {
  return execute(
    db,
    "subscription_superseded_prices",
    "update subscriptions set superseded_prices = $2 where id = $1 and superseded_prices is distinct from $2",
    [subscriptionId, version],
  );
}

/** How many invoices the API shows. */
export const INVOICES = 24;

export type InvoiceRow = {
  id: string;
  kind: string;
  status: string;
  periodStart: Timestamp;
  periodEnd: Timestamp;
  totalCents: number;
  pdfUrl: string | null;
  hostedUrl: string | null;
};

/** Lists an account's invoices, newest first. */
export function listInvoices(db: Db, accountId: string): Promise<InvoiceRow[]> {
  return many<InvoiceRow>(
    db,
    "invoices_list",
    `select id, kind, status, period_start as "periodStart", period_end as "periodEnd", total_cents as "totalCents",
       pdf_url as "pdfUrl", hosted_url as "hostedUrl"
     from invoices where account_id = $1 order by created_at desc, id desc limit $2`,
    [accountId, INVOICES],
  );
}

/** Whether an account paid for anything yet. */
export async function hasPaidInvoice(db: Db, accountId: string): Promise<boolean> {
  const text = "select 1 from invoices where account_id = $1 and status = 'paid' and total_cents > 0 limit 1";
  return (await one(db, "invoice_paid", text, [accountId])) !== undefined;
}

/** Records an invoice as the provider reports it. Returns what was recorded before. */
export async function putInvoice(db: Db, accountId: string, row: MirroredInvoice) {
  const before = await one<{ status: string; attempts: number; actionRequired: boolean }>(
    db,
    "invoice_before",
    `select status, attempts, action_required as "actionRequired" from invoices where id = $1 for update`,
    [row.id],
  );
  await one(
    db,
    "invoice_put",
    `insert into invoices (id, account_id, subscription_id, kind, status, period_start, period_end, total_cents,
       pdf_url, hosted_url, created_at, next_attempt, attempts, action_required)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
     on conflict (id) do update set kind = $4, status = $5, period_start = $6, period_end = $7, total_cents = $8,
       pdf_url = $9, hosted_url = $10, next_attempt = $12, attempts = $13, action_required = $14`,
    [
      row.id,
      accountId,
      row.subscriptionId ?? null,
      row.kind,
      row.status,
      row.periodStart,
      row.periodEnd,
      row.totalCents,
      row.pdfUrl ?? null,
      row.hostedUrl ?? null,
      row.created,
      row.nextAttempt ?? null,
      row.attempts,
      row.actionRequired,
    ],
  );
  return before;
}

/** Returns the account and the subscription of an invoice. */
export function findInvoiceOwner(db: Db, invoiceId: string) {
  return one<{ accountId: string; subscriptionId: string | null }>(
    db,
    "invoice_owner",
    `select account_id as "accountId", subscription_id as "subscriptionId" from invoices where id = $1`,
    [invoiceId],
  );
}

/** Records what a refund of invoices is computed of. */
export function setPaidInvoices(db: Db, invoices: PaidInvoice[]): Promise<number> {
  return execute(
    db,
    "invoices_paid",
    "update invoices i set paid = p.paid from unnest($1::text[], $2::jsonb[]) as p (id, paid) where i.id = p.id",
    [invoices.map(({ id }) => id), invoices.map(({ id: _, ...paid }) => JSON.stringify(paid))],
  );
}

/** Lists what a refund of a subscription is computed of. */
export function listPaidInvoices(db: Db, subscriptionId: string): Promise<PaidInvoice[]> {
  return many<PaidInvoice>(
    db,
    "invoices_paid_list",
    `select id, paid -> 'lines' as lines, (paid ->> 'cashCents')::bigint as "cashCents"
     from invoices where subscription_id = $1 and paid is not null order by id`,
    [subscriptionId],
  );
}
