import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, many } from "../../kit/postgres/db.ts";
import type { StatementLine } from "../usage/closing/sql.ts";
import type { Period } from "../usage/periods.ts";

/** A closed period; amounts in nano-USD as text, or in cents. */
export type ClosedPeriod = Period & {
  tier: string;
  billed: boolean;
  /** Whether what it came to is owed with the next subscription. */
  owedLater: boolean;
  accrued: string;
  allowance: string;
  adjustment: string;
  dueCents: number;
  creditCents: number | null;
  lines: StatementLine[];
  closedAt: Timestamp;
  /** What its invoice says, once the provider reports it. */
  invoiceId: string | null;
  invoiceNumber: string | null;
  invoicedCents: number | null;
  taxCents: number | null;
};

/**
 * Lists the closed periods of an account that began before a time (s), oldest first: those of the newest months, UTC, in
 * which any began.
 */
export function listClosedPeriods(
  db: Db,
  accountId: string,
  { before, months }: { before: number; months: number },
): Promise<ClosedPeriod[]> {
  return many<ClosedPeriod>(
    db,
    "closed_periods_list",
    `with closed as (
       select *, date_trunc('month', started_at at time zone 'UTC') at time zone 'UTC' as month
       from period_statements p
       where account_id = $1 and started_at < to_timestamp($2)
         -- A part of a month that was closed before a period of a subscription in it was known counts no longer.
         and (billed or not exists (select from period_statements b where b.account_id = $1 and b.billed
           and b.started_at < p.ended_at and b.ended_at > p.started_at)))
     select extract(epoch from p.started_at)::bigint as start, extract(epoch from p.ended_at)::bigint as end, p.tier,
       p.billed, exists (select from adjustments a where a.account_id = $1 and a.period_start = p.started_at
         and a.reason = case when p.billed then 'uninvoiced' else 'grace' end) as "owedLater", p.accrued::text, p.allowance::text, p.adjustment::text, p.due_cents as "dueCents",
       p.credit_cents as "creditCents", p.lines, p.frozen_at as "closedAt", m.invoice_id as "invoiceId",
       i.number as "invoiceNumber", m.invoiced_cents as "invoicedCents", m.tax_cents as "taxCents"
     from closed p
     left join lateral (select invoice_id, invoiced_cents, tax_cents from metered_periods
       where account_id = $1 and p.billed and ended_at > p.started_at and ended_at <= p.ended_at
         and due_cents is not null order by ended_at desc limit 1) m on true
     left join invoices i on i.id = m.invoice_id
     where p.month in (select distinct month from closed order by month desc limit $3)
     order by p.started_at, p.ended_at, p.billed`,
    [accountId, before, months],
  );
}

export type ServiceName = { serviceId: string; serviceName: string; projectName: string };

/** Returns the names of services; one that is not known is shown by its id. */
export function listServiceNames(db: Db, serviceIds: string[]): Promise<ServiceName[]> {
  return many<ServiceName>(
    db,
    "statement_names",
    `select u.service_id as "serviceId", coalesce(u.name, u.service_id) as "serviceName",
       coalesce(p.name, u.project_id) as "projectName"
     from usage_services u left join usage_projects p on p.project_id = u.project_id
     where u.service_id = any($1)`,
    [serviceIds],
  );
}
