import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { Period } from "../usage/periods.ts";

/** A period of a compute item; times in seconds. */
export type MeteredPeriod = Period & {
  subscriptionId: string;
  accountId: string;
  customerId: string;
  tier: string;
};

/** What an invoice asks for a period of a compute item. */
export type InvoicedPeriod = Period & {
  subscriptionId: string;
  invoiceId: string;
  /** Whether what it asks for may change. */
  isDraft: boolean;
  cents: number;
  taxCents: number;
};

/** Inserts a period, or updates its end: its plan is that at its start. One whose end changes is reported on again. */
export function putPeriod(db: Db, period: MeteredPeriod): Promise<number> {
  const { subscriptionId, start, end, accountId, customerId, tier } = period;
  return execute(
    db,
    "metered_period_put",
    `insert into metered_periods (subscription_id, started_at, ended_at, account_id, customer_id, tier)
     values ($1, to_timestamp($2), to_timestamp($3), $4, $5, $6)
     on conflict (subscription_id, started_at) do update set ended_at = excluded.ended_at,
       next_at = case when metered_periods.ended_at = excluded.ended_at then metered_periods.next_at
         else '-infinity' end
     where metered_periods.due_cents is null and metered_periods.ended_at <> excluded.ended_at`,
    [subscriptionId, start, end, accountId, customerId, tier],
  );
}

/** Returns when the known periods of subscriptions began, in seconds, by subscription. */
export async function listStarts(db: Db, subscriptionIds: string[]): Promise<Map<string, number[]>> {
  const rows = await many<{ subscriptionId: string; starts: number[] }>(
    db,
    "metered_periods_starts",
    `select subscription_id as "subscriptionId", array_agg(extract(epoch from started_at)::float8) as starts
     from metered_periods where subscription_id = any($1) group by subscription_id`,
    [subscriptionIds],
  );
  return new Map(rows.map(({ subscriptionId, starts }) => [subscriptionId, starts]));
}

/** Records what invoices ask for periods, of each once: the first that is named. */
export function putInvoiced(db: Db, invoiced: InvoicedPeriod[]): Promise<number> {
  return execute(
    db,
    "metered_periods_invoiced",
    `update metered_periods p set invoice_id = i.invoice_id, invoiced_cents = i.cents, tax_cents = i.tax
     from (select distinct on (subscription_id, start) *
       from unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[])
         with ordinality as i (subscription_id, start, invoice_id, cents, tax, position)
       order by subscription_id, start, position) i
     where p.subscription_id = i.subscription_id and p.started_at = to_timestamp(i.start) and p.invoice_id is null`,
    [
      invoiced.map(({ subscriptionId }) => subscriptionId),
      invoiced.map(({ start }) => start),
      invoiced.map(({ invoiceId }) => invoiceId),
      invoiced.map(({ cents }) => cents),
      invoiced.map(({ taxCents }) => taxCents),
    ],
  );
}

const PERIOD = `subscription_id as "subscriptionId", account_id as "accountId", customer_id as "customerId", tier,
  extract(epoch from started_at)::bigint as start, extract(epoch from ended_at)::bigint as end`;

/** A period that this process may report on until its lease is over. */
export type TakenPeriod = MeteredPeriod & { reportedCents: number | null; invoicedCents: number | null };

type Taking = { now: number; until: number; endedBefore: number };

/**
 * Takes a period that is to be reported on; no other replica does before `until`. First those that ended long enough ago to be
 * closed, as their invoices do not wait. Times in seconds.
 */
export function takePeriod(db: Db, { now, until, endedBefore }: Taking): Promise<TakenPeriod | undefined> {
  return one<TakenPeriod>(
    db,
    "metered_period_take",
    `update metered_periods set next_at = to_timestamp($2)
     where (subscription_id, started_at) = (select subscription_id, started_at from metered_periods
       where next_at <= to_timestamp($1)
       order by ended_at <= to_timestamp($3) desc, next_at limit 1 for update skip locked)
     returning ${PERIOD}, reported_cents as "reportedCents", invoiced_cents as "invoicedCents"`,
    [now, until, endedBefore],
  );
}

/** Returns what a period of a subscription came to, in cents; undefined while it is not closed. */
export async function findClosedCents(
  db: Db,
  subscriptionId: string,
  start: number,
): Promise<number | undefined> {
  const row = await one<{ cents: number | null }>(
    db,
    "metered_period_closed_cents",
    "select due_cents as cents from metered_periods where subscription_id = $1 and started_at = to_timestamp($2)",
    [subscriptionId, start],
  );
  return row?.cents ?? undefined;
}

/** Returns the plan of a period of a subscription: that at its start; undefined for one that is not recorded. */
export async function findPeriodTier(db: Db, subscriptionId: string, start: number) {
  const text =
    "select tier from metered_periods where subscription_id = $1 and started_at = to_timestamp($2)";
  return (await one<{ tier: string }>(db, "metered_period_tier", text, [subscriptionId, start]))?.tier;
}

/** Records what was reported, and when to report next (s). A period that ends at another time by now is due already. */
export function setReported(
  db: Db,
  { subscriptionId, start, end }: MeteredPeriod,
  { cents, next }: { cents: number | null; next: number },
): Promise<number> {
  return execute(
    db,
    "metered_period_reported",
    `update metered_periods set reported_cents = $4, next_at = to_timestamp($5)
     where subscription_id = $1 and started_at = to_timestamp($2) and ended_at = to_timestamp($3)`,
    [subscriptionId, start, end, cents, next],
  );
}

/** Closes a period: nothing further is reported on it. `carried`: no invoice asks for it. Returns 0 if it was closed. */
export function setClosed(
  db: Db,
  { subscriptionId, start }: MeteredPeriod,
  dueCents: number,
  carried = false,
): Promise<number> {
  return execute(
    db,
    "metered_period_closed",
    `update metered_periods set due_cents = $3, carried = $4, next_at = 'infinity'
     where subscription_id = $1 and started_at = to_timestamp($2) and due_cents is null`,
    [subscriptionId, start, dueCents, carried],
  );
}

/**
 * Whether no invoice will ask for a period: the provider ended its subscription within it, because a payment failed for
 * too long, and not Berth, which settles what is owed then.
 */
export async function hasNoInvoice(db: Db, { subscriptionId, start, end }: MeteredPeriod): Promise<boolean> {
  const text = `select from subscriptions s where s.id = $1 and s.status = 'canceled'
    and s.compute_start = to_timestamp($2) and s.compute_end > to_timestamp($3)
    and not exists (select from cancellations c where c.subscription_id = s.id)`;
  return (await one(db, "metered_period_no_invoice", text, [subscriptionId, start, end])) !== undefined;
}

export type ClosedPeriod = MeteredPeriod & { invoiceId: string; invoicedCents: number; dueCents: number };

/** Locks periods that are closed and invoiced, and marks them as compared. */
export function takeInvoiced(db: Db, limit: number): Promise<ClosedPeriod[]> {
  return many<ClosedPeriod>(
    db,
    "metered_periods_compare",
    `update metered_periods set compared = true
     where ctid = any(array(select ctid from metered_periods
       where not compared and invoice_id is not null and due_cents is not null
       limit $1 for update skip locked))
     returning ${PERIOD}, invoice_id as "invoiceId", invoiced_cents as "invoicedCents",
       case when carried then 0 else due_cents end as "dueCents"`,
    [limit],
  );
}
